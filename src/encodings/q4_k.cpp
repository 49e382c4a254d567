// GGUF's Q4_K: 256 elements in 144 bytes: f16 d, f16 dmin, 12 bytes with eight 6-bit scales and eight 6-bit
// minima, 128 bytes of nibbles. Eight groups of 32; element = d * scale * nibble - dmin * minimum. Groups 2t
// and 2t+1 are the low and the high nibbles of the bytes 32t to 32t+31.
#include <array>

#include "encodings/block.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

constexpr int kGroups = 8;
constexpr int kGroup = 32;
constexpr int kScales = 4;    // the byte where they begin
constexpr int kNibbles = 16;  // likewise

// Those of groups 4 to 7 have their low four bits in the last four bytes, and their high two bits in the top
// of the bytes of groups 0 to 3.
int scale_of(const std::byte* s, int group) {
  if (group < 4) return byte_at(s + group) & 63;
  return (byte_at(s + group + 4) & 15) | (byte_at(s + group - 4) >> 6 << 4);
}

int minimum_of(const std::byte* s, int group) {
  if (group < 4) return byte_at(s + group + 4) & 63;
  return (byte_at(s + group + 4) >> 4) | (byte_at(s + group) >> 6 << 4);
}

void put_scales(std::byte* s, const std::array<int, kGroups>& scales,
                const std::array<int, kGroups>& minima) {
  for (size_t g = 0; g < 4; ++g) {
    put_byte(s + g, scales[g] | (scales[g + 4] >> 4 << 6));
    put_byte(s + g + 4, minima[g] | (minima[g + 4] >> 4 << 6));
    put_byte(s + g + 8, (scales[g + 4] & 15) | ((minima[g + 4] & 15) << 4));
  }
}

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int g = 0; g < kGroups; ++g) {
    const float scale = d * static_cast<float>(scale_of(block + kScales, g));
    const float minimum = dmin * static_cast<float>(minimum_of(block + kScales, g));
    const std::byte* nibbles = block + kNibbles + g / 2 * kGroup;
    for (int i = 0; i < kGroup; ++i) {
      const int nibble = (byte_at(nibbles + i) >> (g % 2 * 4)) & 15;
      values[g * kGroup + i] = scale * static_cast<float>(nibble) - minimum;
    }
  }
}

void encode(const float* values, std::byte* block) {
  std::array<float, kGroups> steps{};
  std::array<float, kGroups> lows{};  // how far the group reaches below 0
  for (size_t g = 0; g < kGroups; ++g) {
    const auto [low, high] = std::minmax_element(values + g * kGroup, values + (g + 1) * kGroup);
    lows[g] = std::max(0.0F, -*low);
    steps[g] = std::max(0.0F, *high + lows[g]) / 15;
  }
  const float d = put_half(block, *std::ranges::max_element(steps) / 63);
  const float dmin = put_half(block + 2, *std::ranges::max_element(lows) / 63);
  std::array<int, kGroups> scales{};
  std::array<int, kGroups> minima{};
  for (size_t g = 0; g < kGroups; ++g) {
    scales[g] = quantum(steps[g], d, 0, 63);
    minima[g] = quantum(lows[g], dmin, 0, 63);
  }
  put_scales(block + kScales, scales, minima);
  for (size_t g = 0; g < kGroups; ++g) {
    const float scale = d * static_cast<float>(scales[g]);
    const float minimum = dmin * static_cast<float>(minima[g]);
    std::byte* nibbles = block + kNibbles + g / 2 * kGroup;
    for (size_t i = 0; i < kGroup; ++i) {
      const int nibble = quantum(values[g * kGroup + i] + minimum, scale, 0, 15);
      put_byte(nibbles + i, g % 2 == 0 ? nibble : byte_at(nibbles + i) | nibble << 4);
    }
  }
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  minimum: f32,
  at: u32,  // the word where the bytes of its nibbles begin
  shift: u32,  // to its nibbles
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  let g = i % 8u;
  let d = unpack2x16float(x_word(block));
  let shift = 8u * (g % 4u);
  let a = (x_word(block + 1u) >> shift) & 255u;
  let b = (x_word(block + 2u) >> shift) & 255u;
  let c = (x_word(block + 3u) >> shift) & 255u;
  let scale = select(a & 63u, (c & 15u) | ((a >> 6u) << 4u), g >= 4u);
  let minimum = select(b & 63u, (c >> 4u) | ((b >> 6u) << 4u), g >= 4u);
  // i32: CPUs have no conversion from u32.
  return x_Group(d.x * f32(i32(scale)), d.y * f32(i32(minimum)), block + 4u + 8u * (g / 2u), 4u * (g % 2u));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * vec4f(unpack4xI8((x_word(g.at + i) >> g.shift) & 0x0f0f0f0fu)) - g.minimum;
}
)";

}  // namespace

namespace encodings {
void register_q4_k(EncodingTable& table) {
  table.add({.dtype = DType::q4_k,
             .name = "q4_k",
             .block_elements = kGroups * kGroup,
             .block_bytes = 144,
             .group_elements = kGroup,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
