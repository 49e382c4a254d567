// What GGUF's IQ2_XS and IQ2_S share: 16 scales in a nibble each, for groups of 16 elements. With d of the
// block, a scale is worth d * (scale + 1/2) / 4.
#pragma once

#include <cstddef>
#include <string_view>

#include "encodings/block.h"

namespace rlx::iq2_scales {

// That of element i, where `scales` are the bytes of the block that have them.
inline float at(const std::byte* scales, float d, size_t i) {
  const int nibble = (byte_at(scales + i / 32) >> (i / 16 % 2 * 4)) & 15;
  return d * (0.5F + static_cast<float>(nibble)) * 0.25F;
}

// x_scale(i) of group i of the storage, and those of a lane in x_eighth. The encoding says at which word of a
// block they begin, x_SCALES.
inline constexpr std::string_view kWgsl = R"(
fn x_scale(i: u32) -> f32 {
  let g = i % 16u;
  let scale = (x_word(x_block(i / 16u) + x_SCALES + g / 8u) >> (4u * (g % 8u))) & 15u;
  return x_half(i / 16u) * (0.5 + f32(i32(scale))) * 0.25;
}

// Two entries of a lane share a scale.
const x_EIGHTH_FACTORS: u32 = 4u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let scales = x_eight(x_block(i) + x_SCALES, 1u, 0u, 0u, lane) >> (8u * (lane % 4u));
  let d = 0.25 * x_half(i);
  return (d * (0.5 + vec2f(vec2i(vec2u(scales, scales >> 4u) & vec2u(15u))))).xxyy;
}
)";

}  // namespace rlx::iq2_scales
