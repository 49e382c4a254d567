#include "ops/elementwise/scalar.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <unordered_map>
#include <vector>

namespace rlx {
namespace {

using R = const double*;
using I = const int64_t*;
using C = const std::complex<double>*;
constexpr auto kBoolean = ScalarFn::Result::boolean;

// ---- host forms that do not fit on one line ----

// Overflow of int64 wraps, as i32 does on the device: the low 32 bits of both agree.
int64_t wrap(uint64_t v) { return static_cast<int64_t>(v); }
uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }

// NaN wins, as in PyTorch and NumPy.
double max_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double min_nan(double a, double b) { return std::isnan(a) || a < b ? a : b; }

// WGSL gives a meaning to what C++ leaves undefined: x / 0 is x, x % 0 is 0, and INT_MIN / -1 is INT_MIN.
int64_t divide(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? wrap(-bits(a)) : a / b; }
int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

// The sign of the divisor, as in Python's % and numpy.mod.
int64_t modulo(int64_t a, int64_t b) {
  const int64_t r = remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double modulo(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;  // also when r is NaN
}

// A negative power of an integer is 0 unless the base is 1 or -1, as in PyTorch.
int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  }
  uint64_t result = 1, square = bits(base);
  for (uint64_t e = bits(exponent); e != 0; e >>= 1, square *= square) {
    if (e & 1) result *= square;
  }
  return wrap(result);
}

// Shifting by the width or more, or by a negative amount, shifts everything out. Taking 64 for the width is
// right for all types: what is beyond their width is cut off when the result is wrapped.
int64_t shift_left(int64_t a, int64_t n) { return n < 0 || n > 63 ? 0 : wrap(bits(a) << n); }
int64_t shift_right(int64_t a, int64_t n) { return a >> (n < 0 || n > 63 ? 63 : n); }

struct SmallFloat {
  int bits, low;  // after the point; the least exponent of a normal number
  double largest;
  bool infinite, unsigned_zero;
};

// float8e8m0 has powers of two from 2^-127 to 2^127, NaN, and no sign. `mode` 0: the next above, 1: the next
// below, 2: the nearest, ties to the one above.
double round_to_power(double x, int mode, double saturate) {
  const auto magnitude = std::bit_cast<uint32_t>(static_cast<float>(std::fabs(x)));
  uint32_t exponent = magnitude >> 23;
  const uint32_t fraction = magnitude & 0x7fffffU;
  if (exponent == 255) return NAN;
  const uint32_t half = exponent > 0 ? 0x400000U : 0x400001U;
  if ((mode == 0 && fraction > 0) || (mode == 2 && fraction >= half)) ++exponent;
  if (exponent == 255) {
    if (saturate == 0) return NAN;
    exponent = 254;
  }
  return std::ldexp(1, static_cast<int>(exponent) - 127);
}

double round_to_format(double x, double format, double saturate) {
  if (format >= 5) return round_to_power(x, static_cast<int>(format) - 5, saturate);
  static constexpr SmallFloat formats[] = {{3, -6, 448, false, false},
                                           {3, -7, 240, false, true},
                                           {2, -14, 57344, true, false},
                                           {2, -15, 57344, false, true},
                                           {1, 0, 6, false, false}};
  constexpr size_t kFourBits = 4;  // which has no NaN
  const auto which = format >= 1 && format < 5 ? static_cast<size_t>(format) : 0;
  const SmallFloat& f = formats[which];
  if (std::isnan(x)) return which == kFourBits ? -0.0 : x;
  double r = HUGE_VAL;
  if (std::isfinite(x)) {
    const int step = std::max(x == 0 ? f.low : std::ilogb(x), f.low) - f.bits;
    r = std::ldexp(std::nearbyint(std::ldexp(std::fabs(x), -step)), step);
  }
  if (r > f.largest) r = saturate != 0 || which == kFourBits ? f.largest : f.infinite ? HUGE_VAL : NAN;
  return r == 0 && f.unsigned_zero ? 0 : std::copysign(r, x);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return max_nan(x, 0) + std::log1p(std::exp(-std::abs(x))); }
double celu(double x, double alpha) {
  // The limit: a large alpha makes it the identity.
  if (x > 0 || x / alpha == 0) return x;
  return alpha * std::expm1(x / alpha);
}
double elu(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }
double clamp(double x, double low, double high) { return min_nan(max_nan(x, low), high); }

double gelu_approx(double x) {
  return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}

// SELU's constants have their definition in the paper (Klambauer et al. 2017), to more digits than ONNX
// lists.
double selu(double x) {
  return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717);
}

// The plain formula: no search for infinities among NaNs, as in NumPy.
std::complex<double> multiply(std::complex<double> a, std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// ---- the table; WGSL functions that are called are in kernels/lib/math ----
//
// `ulps`: the largest error found on lavapipe over all exponents and around special points, and what the
// accuracy table of WGSL allows the division, sqrt and inverseSqrt of another device beyond that. Complex
// results: relative to their absolute value.
// clang-format off: a row is read as one thing.

const ScalarFn kArithmetic[] = {
    {.name = "add", .arity = 2, .formula = "a + b", .onnx = "Add",
     .f32 = "($0 + $1)", .i32 = "($0 + $1)", .u32 = "($0 + $1)", .c64 = "($0 + $1)",
     .i64 = "add_i64($0, $1)",
     .real = [](R a) { return a[0] + a[1]; },
     .integer = [](I a) { return wrap(bits(a[0]) + bits(a[1])); },
     .complex = [](C a) { return a[0] + a[1]; },
     .ulps = 1},
    {.name = "sub", .arity = 2, .formula = "a - b", .onnx = "Sub",
     .f32 = "($0 - $1)", .i32 = "($0 - $1)", .u32 = "($0 - $1)", .c64 = "($0 - $1)",
     .i64 = "sub_i64($0, $1)",
     .real = [](R a) { return a[0] - a[1]; },
     .integer = [](I a) { return wrap(bits(a[0]) - bits(a[1])); },
     .complex = [](C a) { return a[0] - a[1]; },
     .ulps = 1},
    {.name = "mul", .arity = 2, .formula = "a * b", .onnx = "Mul",
     .f32 = "($0 * $1)", .i32 = "($0 * $1)", .u32 = "($0 * $1)", .c64 = "complex_mul($0, $1)",
     .i64 = "mul_i64($0, $1)",
     .real = [](R a) { return a[0] * a[1]; },
     .integer = [](I a) { return wrap(bits(a[0]) * bits(a[1])); },
     .complex = [](C a) { return multiply(a[0], a[1]); },
     .ulps = 2},
    {.name = "div", .arity = 2, .formula = "a / b; integers towards zero, a / 0 = a", .onnx = "Div",
     .f32 = "($0 / $1)", .i32 = "div_i32($0, $1)", .u32 = "div_u32($0, $1)", .c64 = "complex_div($0, $1)",
     .i64 = "div_i64($0, $1)",
     .real = [](R a) { return a[0] / a[1]; },
     .integer = [](I a) { return divide(a[0], a[1]); },
     .complex = [](C a) { return a[0] / a[1]; },
     .ulps = 5},
    {.name = "maximum", .arity = 2, .formula = "the larger, NaN if either is NaN",
     .f32 = "max_nan($0, $1)", .i32 = "max($0, $1)", .u32 = "max($0, $1)", .boolean = "($0 || $1)",
     .real = [](R a) { return max_nan(a[0], a[1]); },
     .integer = [](I a) { return std::max(a[0], a[1]); },
     .ulps = 0},
    {.name = "minimum", .arity = 2, .formula = "the smaller, NaN if either is NaN",
     .f32 = "min_nan($0, $1)", .i32 = "min($0, $1)", .u32 = "min($0, $1)", .boolean = "($0 && $1)",
     .real = [](R a) { return min_nan(a[0], a[1]); },
     .integer = [](I a) { return std::min(a[0], a[1]); },
     .ulps = 0},
    {.name = "pow", .arity = 2, .formula = "a ^ b as C's pow; integers wrap, a ^ -n = 0 unless |a| = 1",
     .f32 = "pow_f32($0, $1)", .i32 = "pow_i32($0, $1)", .u32 = "pow_u32($0, $1)",
     .i64 = "pow_i64($0, $1)",
     .real = [](R a) { return std::pow(a[0], a[1]); },
     .integer = [](I a) { return power(a[0], a[1]); },
     .cost = 8, .ulps = 5, .low = 0.05, .high = 6, .int_low = -6, .int_high = 9},
    {.name = "mod", .arity = 2, .formula = "a - b floor(a / b), the sign of b; integers a mod 0 = 0",
     .f32 = "mod_f32($0, $1)", .i32 = "mod_i32($0, $1)", .u32 = "rem_u32($0, $1)",
     .real = [](R a) { return modulo(a[0], a[1]); },
     .integer = [](I a) { return modulo(a[0], a[1]); },
     .cost = 8, .ulps = 1},
    {.name = "fmod", .arity = 2, .formula = "a - b trunc(a / b), the sign of a; integers a mod 0 = 0",
     .f32 = "fmod_f32($0, $1)", .i32 = "rem_i32($0, $1)", .u32 = "rem_u32($0, $1)",
     .real = [](R a) { return std::fmod(a[0], a[1]); },
     .integer = [](I a) { return remainder(a[0], a[1]); },
     .cost = 8, .ulps = 0},
    {.name = "clamp", .arity = 3, .operands = "x: what is bounded\nlow: the smallest result\nhigh: the largest result", .formula = "min(max(x, low), high)",
     .f32 = "min_nan(max_nan($0, $1), $2)", .i32 = "min(max($0, $1), $2)", .u32 = "min(max($0, $1), $2)",
     .real = [](R a) { return clamp(a[0], a[1], a[2]); },
     .integer = [](I a) { return std::min(std::max(a[0], a[1]), a[2]); },
     .ulps = 0},
    {.name = "where", .arity = 3, .operands = "condition (bool): which of the two\na: where it is true\nb: where it is false", .formula = "condition ? a : b", .onnx = "Where",
     .f32 = "select($2, $1, $0)", .i32 = "select($2, $1, $0)", .u32 = "select($2, $1, $0)",
     .boolean = "select($2, $1, $0)", .c64 = "select($2, $1, $0)",
     .real = [](R a) { return a[0] != 0 ? a[1] : a[2]; },
     .integer = [](I a) { return a[0] != 0 ? a[1] : a[2]; },
     .complex = [](C a) { return a[0] != 0.0 ? a[1] : a[2]; },
     .ulps = 0},
    {.name = "neg", .formula = "-x", .onnx = "Neg",
     .f32 = "(-$0)", .i32 = "(-$0)", .u32 = "(0u - $0)", .c64 = "(-$0)",
     .i64 = "neg_i64($0)",
     .real = [](R a) { return -a[0]; },
     .integer = [](I a) { return wrap(-bits(a[0])); },
     .complex = [](C a) { return -a[0]; },
     .ulps = 0},
    {.name = "abs", .formula = "|x|", .onnx = "Abs",
     .f32 = "abs($0)", .i32 = "abs($0)", .u32 = "($0)",
     .i64 = "abs_i64($0)",
     .real = [](R a) { return std::abs(a[0]); },
     .integer = [](I a) { return a[0] < 0 ? wrap(-bits(a[0])) : a[0]; },
     .ulps = 0},
    {.name = "sign", .formula = "-1, 0 or 1; NaN stays, as in NumPy", .onnx = "Sign",
     .f32 = "sign_f32($0)", .i32 = "sign($0)", .u32 = "min($0, 1u)",
     .real = [](R a) { return a[0] > 0 ? 1.0 : a[0] < 0 ? -1.0 : a[0]; },
     .integer = [](I a) { return static_cast<int64_t>(a[0] > 0) - static_cast<int64_t>(a[0] < 0); },
     .ulps = 0},
    {.name = "square", .formula = "x * x",
     .f32 = "square_f32($0)", .i32 = "square_i32($0)", .u32 = "square_u32($0)",
     .i64 = "square_i64($0)",
     .real = [](R a) { return a[0] * a[0]; },
     .integer = [](I a) { return wrap(bits(a[0]) * bits(a[0])); },
     .ulps = 1},
    {.name = "reciprocal", .formula = "1 / x", .onnx = "Reciprocal",
     .f32 = "(1.0 / $0)",
     .real = [](R a) { return 1 / a[0]; },
     .ulps = 3},
    {.name = "conj", .formula = "re - i im",
     .c64 = "complex_conj($0)",
     .complex = [](C a) { return std::conj(a[0]); },
     .ulps = 0},
};

const ScalarFn kBits[] = {
    {.name = "bitwise_and", .arity = 2, .formula = "a & b", .onnx = "BitwiseAnd",
     .i32 = "($0 & $1)", .u32 = "($0 & $1)",
     .integer = [](I a) { return a[0] & a[1]; }},
    {.name = "bitwise_or", .arity = 2, .formula = "a | b", .onnx = "BitwiseOr",
     .i32 = "($0 | $1)", .u32 = "($0 | $1)",
     .integer = [](I a) { return a[0] | a[1]; }},
    {.name = "bitwise_xor", .arity = 2, .formula = "a ^ b", .onnx = "BitwiseXor",
     .i32 = "($0 ^ $1)", .u32 = "($0 ^ $1)",
     .integer = [](I a) { return a[0] ^ a[1]; }},
    {.name = "bitwise_not", .formula = "~x", .onnx = "BitwiseNot",
     .i32 = "(~$0)", .u32 = "(~$0)",
     .integer = [](I a) { return ~a[0]; }},
    {.name = "left_shift", .arity = 2, .operands = "a: what is shifted\nn: by how many bits", .formula = "a << n; 0 when n is negative or no less than the width",
     .i32 = "shift_left_i32($0, $1)", .u32 = "shift_left_u32($0, $1)",
     .i64 = "shift_left_i64($0, $1)",
     .integer = [](I a) { return shift_left(a[0], a[1]); },
     .int_low = -4, .int_high = 25},
    {.name = "right_shift", .arity = 2, .operands = "a: what is shifted\nn: by how many bits",
     .formula = "a >> n, copying the sign; all bits shifted out when n is negative or no less than the width",
     .i32 = "shift_right_i32($0, $1)", .u32 = "shift_right_u32($0, $1)",
     .integer = [](I a) { return shift_right(a[0], a[1]); },
     .int_low = -4, .int_high = 40},
};

const ScalarFn kComparisons[] = {
    {.name = "equal", .arity = 2, .formula = "a == b", .onnx = "Equal", .result = kBoolean,
     .f32 = "eq_f32($0, $1)", .i32 = "($0 == $1)", .u32 = "($0 == $1)", .boolean = "($0 == $1)",
     .c64 = "complex_eq($0, $1)",
     .integer = [](I a) { return int64_t{a[0] == a[1]}; },
     .complex = [](C a) { return std::complex<double>(a[0] == a[1]); },
     .compare_real = [](R a) { return a[0] == a[1]; }},
    {.name = "not_equal", .arity = 2, .formula = "a != b, true if either is NaN", .result = kBoolean,
     .f32 = "(!eq_f32($0, $1))", .i32 = "($0 != $1)", .u32 = "($0 != $1)", .boolean = "($0 != $1)",
     .c64 = "(!complex_eq($0, $1))",
     .integer = [](I a) { return int64_t{a[0] != a[1]}; },
     .complex = [](C a) { return std::complex<double>(!(a[0] == a[1])); },
     .compare_real = [](R a) { return a[0] != a[1]; }},
    {.name = "less", .arity = 2, .formula = "a < b", .onnx = "Less", .result = kBoolean,
     .f32 = "lt_f32($0, $1)", .i32 = "($0 < $1)", .u32 = "($0 < $1)",
     .integer = [](I a) { return int64_t{a[0] < a[1]}; },
     .compare_real = [](R a) { return a[0] < a[1]; }},
    {.name = "less_equal", .arity = 2, .formula = "a <= b", .onnx = "LessOrEqual", .result = kBoolean,
     .f32 = "le_f32($0, $1)", .i32 = "($0 <= $1)", .u32 = "($0 <= $1)",
     .integer = [](I a) { return int64_t{a[0] <= a[1]}; },
     .compare_real = [](R a) { return a[0] <= a[1]; }},
    {.name = "greater", .arity = 2, .formula = "a > b", .onnx = "Greater", .result = kBoolean,
     .f32 = "lt_f32($1, $0)", .i32 = "($0 > $1)", .u32 = "($0 > $1)",
     .integer = [](I a) { return int64_t{a[0] > a[1]}; },
     .compare_real = [](R a) { return a[0] > a[1]; }},
    {.name = "greater_equal", .arity = 2, .formula = "a >= b", .onnx = "GreaterOrEqual", .result = kBoolean,
     .f32 = "le_f32($1, $0)", .i32 = "($0 >= $1)", .u32 = "($0 >= $1)",
     .integer = [](I a) { return int64_t{a[0] >= a[1]}; },
     .compare_real = [](R a) { return a[0] >= a[1]; }},
    {.name = "is_nan", .formula = "x is NaN", .onnx = "IsNaN", .result = kBoolean,
     .f32 = "is_nan($0)",
     .compare_real = [](R a) { return std::isnan(a[0]); }},
    {.name = "is_inf", .formula = "x is an infinity", .result = kBoolean,
     .f32 = "is_inf($0)",
     .compare_real = [](R a) { return std::isinf(a[0]); }},
    {.name = "logical_and", .arity = 2, .formula = "a and b", .onnx = "And", .result = kBoolean,
     .boolean = "($0 && $1)",
     .integer = [](I a) { return int64_t{a[0] && a[1]}; }},
    {.name = "logical_or", .arity = 2, .formula = "a or b", .onnx = "Or", .result = kBoolean,
     .boolean = "($0 || $1)",
     .integer = [](I a) { return int64_t{a[0] || a[1]}; }},
    {.name = "logical_xor", .arity = 2, .formula = "a differs from b", .onnx = "Xor", .result = kBoolean,
     .boolean = "($0 != $1)",
     .integer = [](I a) { return int64_t{!a[0] != !a[1]}; }},
    {.name = "logical_not", .formula = "not x", .onnx = "Not", .result = kBoolean,
     .boolean = "(!$0)",
     .integer = [](I a) { return int64_t{!a[0]}; }},
};

double rounded_to_range(const double* a, double low, double high) {
  const auto quotient = static_cast<double>(static_cast<float>(a[0] / a[1]));
  return std::isnan(quotient) ? 0 : std::clamp(std::nearbyint(quotient) + std::nearbyint(a[2]), low, high);
}

const ScalarFn kRounding[] = {
    {.name = "round_div", .arity = 2, .formula = "the f32 quotient a / b rounded to the nearest integer, ties to even",
     .f32 = "round_div_f32($0, $1)",
     .real = [](R a) { return std::nearbyint(static_cast<double>(static_cast<float>(a[0] / a[1]))); },
     .cost = 8, .ulps = 0},
    {.name = "round_div_away", .arity = 2,
     .formula = "the f32 quotient a / b rounded to the nearest integer, ties away from zero",
     .f32 = "round_div_away_f32($0, $1)",
     .real = [](R a) { return std::round(static_cast<double>(static_cast<float>(a[0] / a[1]))); },
     .cost = 10, .ulps = 0},
    {.name = "round_to_u8", .arity = 3, .operands = "x: what is quantised\nscale: what x is divided by\nzero: what is added to the rounded quotient, itself rounded; from -1024 to 1024",
     .formula = "the f32 quotient x / scale rounded to the nearest integer, ties to even, plus round(zero), between 0 and 255; NaN becomes 0",
     .f32 = "round_to_range_f32($0, $1, $2, 0.0, 255.0)",
     .real = [](R a) { return rounded_to_range(a, 0, 255); },
     .cost = 8, .ulps = 0},
    {.name = "round_to_i8", .arity = 3, .operands = "x: what is quantised\nscale: what x is divided by\nzero: what is added to the rounded quotient, itself rounded; from -1024 to 1024",
     .formula = "the f32 quotient x / scale rounded to the nearest integer, ties to even, plus round(zero), between -128 and 127; NaN becomes 0",
     .f32 = "round_to_range_f32($0, $1, $2, -128.0, 127.0)",
     .real = [](R a) { return rounded_to_range(a, -128, 127); },
     .cost = 8, .ulps = 0},
    {.name = "round_to_format", .arity = 3, .operands = "x: what is rounded\nformat: the number of the float type\nsaturate: 0: what is too large becomes infinite or NaN",
     .formula = "the nearest number of float8e4m3fn (format 0), float8e4m3fnuz (1), float8e5m2 (2), float8e5m2fnuz (3), "
                "float4e2m1 (4) or float8e8m0 (7; 5: the next above, 6: the next below); what is too large becomes the "
                "largest, or infinite or NaN if saturate is 0",
     .f32 = "round_to_format_f32($0, $1, $2)",
     .real = [](R a) { return round_to_format(a[0], a[1], a[2]); },
     .cost = 16, .ulps = 0},
    {.name = "round", .formula = "the nearest integer, ties to even", .onnx = "Round",
     .f32 = "round($0)", .i32 = "($0)", .u32 = "($0)",
     .real = [](R a) { return std::nearbyint(a[0]); },
     .integer = [](I a) { return a[0]; },
     .ulps = 0},
    {.name = "floor", .formula = "the largest integer that is not above x", .onnx = "Floor",
     .f32 = "floor_f32($0)", .i32 = "($0)", .u32 = "($0)",
     .real = [](R a) { return std::floor(a[0]); },
     .integer = [](I a) { return a[0]; },
     .ulps = 0},
    {.name = "ceil", .formula = "the smallest integer that is not below x", .onnx = "Ceil",
     .f32 = "ceil_f32($0)", .i32 = "($0)", .u32 = "($0)",
     .real = [](R a) { return std::ceil(a[0]); },
     .integer = [](I a) { return a[0]; },
     .ulps = 0},
    {.name = "trunc", .formula = "x without its fraction",
     .f32 = "trunc($0)", .i32 = "($0)", .u32 = "($0)",
     .real = [](R a) { return std::trunc(a[0]); },
     .integer = [](I a) { return a[0]; },
     .ulps = 0},
};

const ScalarFn kExponentials[] = {
    {.name = "exp", .formula = "e^x", .onnx = "Exp",
     .f32 = "exp_f32($0)", .c64 = "complex_exp($0)",
     .real = [](R a) { return std::exp(a[0]); },
     .complex = [](C a) { return std::exp(a[0]); },
     .cost = 8, .ulps = 4, .low = -10, .high = 10},
    {.name = "exp2", .formula = "2^x",
     .f32 = "exp2_f32($0)",
     .real = [](R a) { return std::exp2(a[0]); },
     .cost = 8, .ulps = 3, .low = -14, .high = 14},
    {.name = "expm1", .formula = "e^x - 1",
     .f32 = "expm1_f32($0)",
     .real = [](R a) { return std::expm1(a[0]); },
     .cost = 8, .ulps = 2, .low = -10, .high = 10},
    {.name = "log", .formula = "ln x", .onnx = "Log",
     .f32 = "log_f32($0)", .c64 = "complex_log($0)",
     .real = [](R a) { return std::log(a[0]); },
     .complex = [](C a) { return std::log(a[0]); },
     .cost = 8, .ulps = 5, .low = 1e-3, .high = 20},
    {.name = "log2", .formula = "ln x / ln 2",
     .f32 = "log2_f32($0)",
     .real = [](R a) { return std::log2(a[0]); },
     .cost = 8, .ulps = 2, .low = 1e-3, .high = 20},
    {.name = "log1p", .formula = "ln(1 + x)",
     .f32 = "log1p_f32($0)",
     .real = [](R a) { return std::log1p(a[0]); },
     .cost = 8, .ulps = 2, .low = -0.99, .high = 20},
    {.name = "sqrt", .formula = "sqrt x", .onnx = "Sqrt",
     .f32 = "sqrt_f32($0)", .c64 = "complex_sqrt($0)",
     .real = [](R a) { return std::sqrt(a[0]); },
     .complex = [](C a) { return std::sqrt(a[0]); },
     .ulps = 8, .low = 0, .high = 100},
    {.name = "rsqrt", .formula = "1 / sqrt x",
     .f32 = "rsqrt_f32($0)",
     .real = [](R a) { return 1 / std::sqrt(a[0]); },
     .ulps = 3, .low = 1e-3, .high = 100},
};

const ScalarFn kTrigonometry[] = {
    {.name = "sin", .formula = "sin x", .onnx = "Sin",
     .f32 = "sin_f32($0)",
     .real = [](R a) { return std::sin(a[0]); },
     .cost = 8, .ulps = 2, .low = -100, .high = 100},
    {.name = "cos", .formula = "cos x", .onnx = "Cos",
     .f32 = "cos_f32($0)",
     .real = [](R a) { return std::cos(a[0]); },
     .cost = 8, .ulps = 2, .low = -100, .high = 100},
    {.name = "tan", .formula = "tan x", .onnx = "Tan",
     .f32 = "tan_f32($0)",
     .real = [](R a) { return std::tan(a[0]); },
     .cost = 8, .ulps = 5, .low = -10, .high = 10},
    {.name = "asin", .formula = "arcsin x", .onnx = "Asin",
     .f32 = "asin_f32($0)",
     .real = [](R a) { return std::asin(a[0]); },
     .cost = 8, .ulps = 4, .low = -1, .high = 1},
    {.name = "acos", .formula = "arccos x", .onnx = "Acos",
     .f32 = "acos_f32($0)",
     .real = [](R a) { return std::acos(a[0]); },
     .cost = 8, .ulps = 3, .low = -1, .high = 1},
    {.name = "atan", .formula = "arctan x", .onnx = "Atan",
     .f32 = "atan_f32($0)",
     .real = [](R a) { return std::atan(a[0]); },
     .cost = 8, .ulps = 4, .low = -10, .high = 10},
    {.name = "atan2", .arity = 2, .operands = "y: the second coordinate\nx: the first coordinate", .formula = "the angle of the point (x, y)",
     .f32 = "atan2_f32($0, $1)",
     .real = [](R a) { return std::atan2(a[0], a[1]); },
     .cost = 8, .ulps = 4},
    {.name = "sinh", .formula = "(e^x - e^-x) / 2", .onnx = "Sinh",
     .f32 = "sinh_f32($0)",
     .real = [](R a) { return std::sinh(a[0]); },
     .cost = 8, .ulps = 2, .low = -10, .high = 10},
    {.name = "cosh", .formula = "(e^x + e^-x) / 2", .onnx = "Cosh",
     .f32 = "cosh_f32($0)",
     .real = [](R a) { return std::cosh(a[0]); },
     .cost = 8, .ulps = 2, .low = -10, .high = 10},
    {.name = "tanh", .formula = "tanh x", .onnx = "Tanh",
     .f32 = "tanh_f32($0)",
     .real = [](R a) { return std::tanh(a[0]); },
     .cost = 8, .ulps = 3, .low = -10, .high = 10},
    {.name = "asinh", .formula = "ln(x + sqrt(x^2 + 1))", .onnx = "Asinh",
     .f32 = "asinh_f32($0)",
     .real = [](R a) { return std::asinh(a[0]); },
     .cost = 8, .ulps = 4, .low = -20, .high = 20},
    {.name = "acosh", .formula = "ln(x + sqrt(x^2 - 1))", .onnx = "Acosh",
     .f32 = "acosh_f32($0)",
     .real = [](R a) { return std::acosh(a[0]); },
     .cost = 8, .ulps = 3, .low = 1, .high = 20},
    {.name = "atanh", .formula = "ln((1 + x) / (1 - x)) / 2", .onnx = "Atanh",
     .f32 = "atanh_f32($0)",
     .real = [](R a) { return std::atanh(a[0]); },
     .cost = 8, .ulps = 4, .low = -0.999, .high = 0.999},
    {.name = "erf", .formula = "2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x", .onnx = "Erf",
     .f32 = "erf_f32($0)",
     .real = [](R a) { return std::erf(a[0]); },
     .cost = 8, .ulps = 2},
};

// -infinity yields NaN for the functions of the form x * f(x) with f(-infinity) = 0, as it does in PyTorch.
const ScalarFn kActivations[] = {
    {.name = "relu", .formula = "max(x, 0), NaN stays", .onnx = "Relu",
     .f32 = "max_nan($0, 0.0)", .i32 = "max($0, 0i)", .u32 = "($0)",
     .real = [](R a) { return max_nan(a[0], 0); },
     .integer = [](I a) { return std::max<int64_t>(a[0], 0); },
     .ulps = 0},
    {.name = "leaky_relu", .arity = 2, .operands = "x: the argument\nalpha: the slope below 0", .formula = "x > 0 ? x : alpha x", .onnx = "LeakyRelu alpha=0.01",
     .f32 = "leaky_relu($0, $1)",
     .real = [](R a) { return a[0] > 0 ? a[0] : a[1] * a[0]; },
     .ulps = 1},
    {.name = "thresholded_relu", .arity = 2, .operands = "x: the argument\nalpha: what x must exceed", .formula = "x > alpha ? x : 0, also for NaN", .onnx = "ThresholdedRelu alpha=1",
     .f32 = "thresholded_relu($0, $1)",
     .real = [](R a) { return a[0] > a[1] ? a[0] : 0; },
     .ulps = 0},
    {.name = "sigmoid", .formula = "1 / (1 + e^-x)", .onnx = "Sigmoid",
     .f32 = "sigmoid($0)",
     .real = [](R a) { return sigmoid(a[0]); },
     .cost = 8, .ulps = 4, .low = -10, .high = 10},
    {.name = "hard_sigmoid", .arity = 3, .operands = "x: the argument\nalpha: its factor\nbeta: what is added", .formula = "clamp(alpha x + beta, 0, 1)", .onnx = "HardSigmoid alpha=0.2 beta=0.5",
     .f32 = "hard_sigmoid($0, $1, $2)",
     .real = [](R a) { return clamp(a[1] * a[0] + a[2], 0, 1); },
     .cost = 8, .ulps = 2},
    {.name = "gelu", .formula = "x (1 + erf(x / sqrt 2)) / 2",
     .f32 = "gelu($0)",
     .real = [](R a) { return a[0] * 0.5 * std::erfc(-a[0] / std::numbers::sqrt2); },
     .cost = 8, .ulps = 6, .low = -6, .high = 6},
    {.name = "gelu_approx", .formula = "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2",
     .f32 = "gelu_approx($0)",
     .real = [](R a) { return gelu_approx(a[0]); },
     .cost = 8, .ulps = 5, .low = -6, .high = 6},
    {.name = "silu", .formula = "x / (1 + e^-x)",
     .f32 = "silu($0)",
     .real = [](R a) { return a[0] * sigmoid(a[0]); },
     .cost = 8, .ulps = 5, .low = -10, .high = 10},
    {.name = "hard_swish", .formula = "x clamp(x + 3, 0, 6) / 6", .onnx = "HardSwish",
     .f32 = "hard_swish($0)",
     .real = [](R a) { return a[0] * clamp(a[0] + 3, 0, 6) / 6; },
     .ulps = 2},
    {.name = "mish", .formula = "x tanh(ln(1 + e^x))", .onnx = "Mish",
     .f32 = "mish($0)",
     .real = [](R a) { return a[0] * std::tanh(softplus(a[0])); },
     .cost = 8, .ulps = 5, .low = -10, .high = 10},
    {.name = "softplus", .formula = "ln(1 + e^x)", .onnx = "Softplus",
     .f32 = "softplus($0)",
     .real = [](R a) { return softplus(a[0]); },
     .cost = 8, .ulps = 2, .low = -10, .high = 10},
    {.name = "softsign", .formula = "x / (1 + |x|)", .onnx = "Softsign",
     .f32 = "softsign($0)",
     .real = [](R a) { return a[0] / (1 + std::abs(a[0])); },
     .ulps = 3},
    {.name = "elu", .arity = 2, .operands = "x: the argument\nalpha: the limit is -alpha", .formula = "x > 0 ? x : alpha (e^x - 1)", .onnx = "Elu alpha=1",
     .f32 = "elu($0, $1)",
     .real = [](R a) { return elu(a[0], a[1]); },
     .cost = 8, .ulps = 2},
    {.name = "celu", .arity = 2, .operands = "x: the argument\nalpha: the limit is -alpha", .formula = "x > 0 ? x : alpha (e^(x / alpha) - 1)", .onnx = "Celu alpha=1",
     .f32 = "celu($0, $1)",
     .real = [](R a) { return celu(a[0], a[1]); },
     .cost = 8, .ulps = 4},
    {.name = "selu", .formula = "1.0507 (x > 0 ? x : 1.67326 (e^x - 1))",
     .f32 = "selu($0)",
     .real = [](R a) { return selu(a[0]); },
     .cost = 8, .ulps = 2},
};

// clang-format on

}  // namespace

std::span<const ScalarFn> scalar_functions() {
  static const std::vector<ScalarFn> all = [] {
    std::vector<ScalarFn> rows;
    rows.insert(rows.end(), std::begin(kArithmetic), std::end(kArithmetic));
    rows.insert(rows.end(), std::begin(kBits), std::end(kBits));
    rows.insert(rows.end(), std::begin(kComparisons), std::end(kComparisons));
    rows.insert(rows.end(), std::begin(kRounding), std::end(kRounding));
    rows.insert(rows.end(), std::begin(kExponentials), std::end(kExponentials));
    rows.insert(rows.end(), std::begin(kTrigonometry), std::end(kTrigonometry));
    rows.insert(rows.end(), std::begin(kActivations), std::end(kActivations));
    return rows;
  }();
  return all;
}

const ScalarFn* find_scalar(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const ScalarFn*> all;
    for (const ScalarFn& fn : scalar_functions()) all.emplace(fn.name, &fn);
    return all;
  }();
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

bool defined_for(const ScalarFn& fn, DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return !fn.f32.empty();
    case DType::i32:
    case DType::i64:
    case DType::i8:
      return !fn.i32.empty();
    case DType::u32:
    case DType::u8:
      return !fn.u32.empty();
    case DType::bool_:
      return !fn.boolean.empty();
    case DType::c64:
      return !fn.c64.empty();
    default:
      return false;  // encoded: expressions see f32
  }
}

}  // namespace rlx
