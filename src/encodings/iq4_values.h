// What GGUF's IQ4_NL and IQ4_XS share: the sixteen values of a nibble, closer to each other near 0.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "encodings/block.h"

namespace rlx::iq4 {

inline constexpr std::array<int, 16> kValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

// The code whose value times the scale is nearest.
inline int code_of(float value, float scale) {
  if (scale == 0 || std::isnan(value / scale)) return 8;
  const float ratio = value / scale;
  size_t code = 0;
  while (code < 15 && ratio > 0.5F * static_cast<float>(kValues[code] + kValues[code + 1])) ++code;
  return static_cast<int>(code);
}

inline float value_of(int code) { return static_cast<float>(kValues[static_cast<size_t>(code)]); }

// A scale, perhaps a negative one, with a small sum of squared errors, as fit_step of fit.h finds steps.
inline float fit(std::span<const float> values) {
  float largest = 0;
  for (const float v : values) {
    if (std::abs(v) > std::abs(largest)) largest = v;
  }
  if (largest == 0) return 0;
  float best = 0;
  float least = 0;  // what the best one takes from the squared error
  for (const float sign : {-1.0F, 1.0F}) {
    for (int i = 0; i < 25; ++i) {
      const float scale = sign * largest / (95 + 2 * static_cast<float>(i));
      float products = 0;
      float squares = 0;
      for (const float v : values) {
        const float q = value_of(code_of(v, scale));
        products += v * q;
        squares += q * q;
      }
      if (squares > 0 && products * products > least * squares) {
        least = products * products / squares;
        best = products / squares;
      }
    }
  }
  return best;
}

// x_values(nibbles): the values of four nibbles, in a byte each. The table is four words; looked up by
// shifts, since arrays that are indexed cost some drivers a copy.
inline constexpr std::string_view kWgsl = R"(
fn x_values(nibbles: u32) -> vec4f {
  let c = (vec4u(nibbles) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(15u);
  let odd = (c & vec4u(4u)) != vec4u(0u);
  let low = select(vec4u(0xbfad9881u), vec4u(0xf6eaddcfu), odd);
  let high = select(vec4u(0x26190d01u), vec4u(0x71594535u), odd);
  let word = select(low, high, c >= vec4u(8u));
  return vec4f(vec4i(word << (vec4u(24u) - 8u * (c & vec4u(3u)))) >> vec4u(24u));
}
)";

}  // namespace rlx::iq4
