#include "base/half.h"

#include <bit>
#include <cmath>

#include "rlx/half.h"

namespace rlx {
namespace {

// Rounds to odd at float precision: a second rounding to a shorter format is then exact.
float float_round_to_odd(double value) {
  float f = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(f) || static_cast<double>(f) == value) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (bits & 1) return f;
  const bool rounded_away = std::fabs(static_cast<double>(f)) > std::fabs(value);
  return std::bit_cast<float>(rounded_away ? bits - 1 : bits + 1);
}

}  // namespace

uint16_t f16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  const uint32_t round = 0xfff + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((magnitude + round - 0x38000000) >> 13);
}

float float_from_f16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31;
  const uint32_t mantissa = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t bf16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float float_from_bf16(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

uint16_t f16_from_double(double value) { return f16_from_float(float_round_to_odd(value)); }
uint16_t bf16_from_double(double value) { return bf16_from_float(float_round_to_odd(value)); }

f16::f16(float value) : bits(f16_from_float(value)) {}
f16::operator float() const { return float_from_f16(bits); }
bf16::bf16(float value) : bits(bf16_from_float(value)) {}
bf16::operator float() const { return float_from_bf16(bits); }

}  // namespace rlx
