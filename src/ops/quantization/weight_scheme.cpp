#include "ops/quantization/weight_scheme.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace rlx {
namespace {

double small_float(unsigned code, int mantissa_bits, int bias, bool has_infinity) {
  const int exponent_bits = 7 - mantissa_bits;
  const auto mantissa = static_cast<int>(code & ((1U << mantissa_bits) - 1));
  const auto exponent = static_cast<int>((code >> mantissa_bits) & ((1U << exponent_bits) - 1));
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  const bool last = exponent == (1 << exponent_bits) - 1;
  if (has_infinity && last) return mantissa == 0 ? sign * INFINITY : NAN;
  if (!has_infinity && (code & 0x7f) == 0x7f) return NAN;
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - mantissa_bits);
}

}  // namespace

CodeScheme code_scheme(WeightScheme scheme) {
  using Code = CodeScheme::Code;
  using Scale = CodeScheme::Scale;
  switch (scheme) {
    case WeightScheme::int8:
      return {Code::signed_int, 8};
    case WeightScheme::int4:
      return {Code::signed_int, 4};
    case WeightScheme::uint8:
      return {Code::unsigned_int, 8};
    case WeightScheme::uint4:
      return {Code::unsigned_int, 4};
    case WeightScheme::uint2:
      return {Code::unsigned_int, 2};
    case WeightScheme::fp8_e4m3:
      return {Code::e4m3, 8};
    case WeightScheme::fp8_e5m2:
      return {Code::e5m2, 8};
    case WeightScheme::nvfp4:
      return {Code::e2m1, 4, Scale::e4m3, 16};
    case WeightScheme::mxfp4:
      return {Code::e2m1, 4, Scale::e8m0, 32};
  }
  return {};
}

double code_value(const CodeScheme& scheme, unsigned code) {
  using Code = CodeScheme::Code;
  constexpr std::array kE2M1 = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  switch (scheme.code) {
    case Code::unsigned_int:
      return code;
    case Code::signed_int:
      return static_cast<double>(code) -
             (code >> (scheme.bits - 1) != 0 ? std::ldexp(1, static_cast<int>(scheme.bits)) : 0);
    case Code::e4m3:
      return small_float(code, 3, 7, false);
    case Code::e5m2:
      return small_float(code, 2, 15, true);
    case Code::e2m1:
      return (code >= 8 ? -1 : 1) * kE2M1[code & 7];
  }
  return 0;
}

double scale_value(const CodeScheme& scheme, double stored) {
  switch (scheme.scale) {
    case CodeScheme::Scale::number:
      return stored;
    case CodeScheme::Scale::e4m3:
      return small_float(static_cast<unsigned>(stored), 3, 7, false);
    case CodeScheme::Scale::e8m0:
      return stored == 255 ? NAN : std::exp2(stored - 127);
  }
  return stored;
}

void visit_scheme(AttributeVisitor& v, WeightScheme& scheme) {
  v.choice("scheme", scheme,
           {"int8", "int4", "uint8", "uint4", "uint2", "fp8_e4m3", "fp8_e5m2", "nvfp4", "mxfp4"});
}

}  // namespace rlx
