// Numbers of four bits, a sign, two bits of exponent and one of mantissa, as MXFP4 and NVFP4 have them: twice
// their values, which are whole.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "encodings/block.h"

namespace rlx::e2m1 {

inline constexpr std::array<int, 8> kDoubled = {0, 1, 2, 3, 4, 6, 8, 12};

inline float doubled(int code) {
  const int value = kDoubled[static_cast<size_t>(code & 7)];
  return static_cast<float>(code >= 8 ? -value : value);
}

// The code whose doubled value times the scale is nearest.
inline int code_of(float value, float scale) {
  if (scale == 0 || std::isnan(value / scale)) return 0;
  const float ratio = std::abs(value / scale);
  size_t code = 0;
  while (code < 7 && ratio > 0.5F * static_cast<float>(kDoubled[code] + kDoubled[code + 1])) ++code;
  return static_cast<int>(code) | (value < 0 && code != 0 ? 8 : 0);
}

inline float squared_error(std::span<const float> values, float scale) {
  float sum = 0;
  for (const float v : values) {
    const float decoded = scale * doubled(code_of(v, scale));
    sum += (v - decoded) * (v - decoded);
  }
  return sum;
}

// x_doubled(nibbles): twice the values of four codes, in the low half of a byte each. A table of eight
// nibbles.
inline constexpr std::string_view kWgsl = R"(
fn x_doubled(nibbles: u32) -> vec4f {
  let c = vec4u(nibbles) >> vec4u(0u, 8u, 16u, 24u);
  let value = vec4f(vec4i((vec4u(0xc8643210u) >> (4u * (c & vec4u(7u)))) & vec4u(15u)));
  return select(value, -value, (c & vec4u(8u)) != vec4u(0u));
}
)";

}  // namespace rlx::e2m1
