// What the host code of encodings shares: numbers in the bytes of a block, and rounding to a few bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace rlx {

inline float half_at(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return float_from_f16(bits);
}

// Stores the value as f16 and returns what was stored.
inline float put_half(std::byte* at, float value) {
  const uint16_t bits = f16_from_float(value);
  std::memcpy(at, &bits, sizeof bits);
  return float_from_f16(bits);
}

inline int byte_at(const std::byte* at) { return std::to_integer<int>(*at); }
inline int signed_byte_at(const std::byte* at) { return static_cast<int8_t>(*at); }
inline void put_byte(std::byte* at, int value) { *at = static_cast<std::byte>(value); }

// value / step, to the nearest whole number in [low, high]; 0 if the step is 0 or the value is NaN.
inline int quantum(float value, float step, int low, int high) {
  const float ratio = value / step;
  if (step == 0 || std::isnan(ratio)) return 0;
  return static_cast<int>(
      std::clamp(std::nearbyint(ratio), static_cast<float>(low), static_cast<float>(high)));
}

}  // namespace rlx
