// What GGUF's Q4_K and Q5_K share: f16 d, f16 dmin and 12 bytes with eight 6-bit scales and eight 6-bit
// minima stand first, and element = d * scale * code - dmin * minimum.
#pragma once

#include <array>
#include <string_view>

#include "encodings/fit.h"

namespace rlx::k_scales {

inline constexpr size_t kGroups = 8;
inline constexpr size_t kGroup = 32;
inline constexpr size_t kBytes = 16;

// Those of groups 4 to 7 have their low four bits in the last four bytes, and their high two bits in the top
// of the bytes of groups 0 to 3.
inline int scale_of(const std::byte* s, size_t group) {
  if (group < 4) return byte_at(s + group) & 63;
  return (byte_at(s + group + 4) & 15) | (byte_at(s + group - 4) >> 6 << 4);
}

inline int minimum_of(const std::byte* s, size_t group) {
  if (group < 4) return byte_at(s + group + 4) & 63;
  return (byte_at(s + group + 4) >> 4) | (byte_at(s + group) >> 6 << 4);
}

struct Steps {
  std::array<float, kGroups> scale;
  std::array<float, kGroups> minimum;
};

inline Steps steps_of(const std::byte* block) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  Steps out{};
  for (size_t g = 0; g < kGroups; ++g) {
    out.scale[g] = d * static_cast<float>(scale_of(block + 4, g));
    out.minimum[g] = dmin * static_cast<float>(minimum_of(block + 4, g));
  }
  return out;
}

// Chooses them for codes from 0 to `high`, and returns what was stored.
inline Steps put_steps(std::byte* block, const float* values, int high) {
  std::array<float, kGroups> steps{};
  std::array<float, kGroups> lows{};  // how far the group reaches below 0
  for (size_t g = 0; g < kGroups; ++g) {
    const Fit fit = fit_range(std::span(values + g * kGroup, kGroup), high, true);
    steps[g] = fit.step;
    lows[g] = std::max(0.0F, -fit.low);
  }
  const float d = put_half(block, *std::ranges::max_element(steps) / 63);
  const float dmin = put_half(block + 2, *std::ranges::max_element(lows) / 63);
  std::array<int, kGroups> scales{};
  std::array<int, kGroups> minima{};
  for (size_t g = 0; g < kGroups; ++g) {
    scales[g] = quantum(steps[g], d, 0, 63);
    minima[g] = quantum(lows[g], dmin, 0, 63);
  }
  std::byte* s = block + 4;
  for (size_t g = 0; g < 4; ++g) {
    put_byte(s + g, scales[g] | (scales[g + 4] >> 4 << 6));
    put_byte(s + g + 4, minima[g] | (minima[g + 4] >> 4 << 6));
    put_byte(s + g + 8, (scales[g + 4] & 15) | ((minima[g + 4] & 15) << 4));
  }
  return steps_of(block);
}

// x_steps(block, g): the scale and the minimum of group g of the block that begins at this word.
inline constexpr std::string_view kWgsl = R"(
fn x_steps(block: u32, g: u32) -> vec2f {
  let shift = 8u * (g % 4u);
  let a = (x_word(block + 1u) >> shift) & 255u;
  let b = (x_word(block + 2u) >> shift) & 255u;
  let c = (x_word(block + 3u) >> shift) & 255u;
  let scale = select(a & 63u, (c & 15u) | ((a >> 6u) << 4u), g >= 4u);
  let minimum = select(b & 63u, (c >> 4u) | ((b >> 6u) << 4u), g >= 4u);
  // i32: CPUs have no conversion from u32.
  return unpack2x16float(x_word(block)) * vec2f(f32(i32(scale)), f32(i32(minimum)));
}
)";

// For x_eighth: a lane has four words of the nibbles of a pair of groups, low and high. Bytes are converted
// where they stand in a word; the steps make up for that.
inline constexpr std::string_view kEighthsWgsl = R"(
const x_EIGHTH_FACTORS: u32 = 0u;
const x_EIGHTH_UNIT: vec4f = vec4f(1.0);
fn x_eighth_factors(i: u32, lane: u32) -> vec4f { return vec4f(1.0); }
fn x_eighth_place(j: u32, lane: u32) -> u32 {
  return 64u * (lane / 2u) + 16u * (lane % 2u) + 32u * (j % 2u) + 4u * (j / 2u);
}
struct x_PairSteps {
  low: vec4f,  // of the four bytes of a word
  high: vec4f,
  low_minimum: f32,
  high_minimum: f32,
}
fn x_pair_steps(block: u32, lane: u32) -> x_PairSteps {
  // The steps of both groups, side by side in two bytes.
  let shift = 8u * (lane & 2u);
  let a = x_word(block + 1u) >> shift;
  let b = x_word(block + 2u) >> shift;
  let c = x_word(block + 3u) >> shift;
  let late = lane >= 4u;
  let scales = select(a & 0x3f3fu, (c & 0x0f0fu) | ((a >> 2u) & 0x3030u), late);
  let minima = select(b & 0x3f3fu, ((c >> 4u) & 0x0f0fu) | ((b >> 2u) & 0x3030u), late);
  let d = unpack2x16float(x_word(block));
  let unit = vec4f(1.0, 0x1p-8, 0x1p-16, 0x1p-24);
  return x_PairSteps(d.x * f32(i32(scales & 255u)) * unit, d.x * f32(i32(scales >> 8u)) * unit,
                     d.y * f32(i32(minima & 255u)), d.y * f32(i32(minima >> 8u)));
}
)";

}  // namespace rlx::k_scales
