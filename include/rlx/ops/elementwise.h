// Functions of each element; inputs broadcast as in NumPy.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <utility>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
// A number next to a tensor takes the tensor's type.
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

// A tensor, or a number of the type of the tensor next to it: maximum(x, 0), where(mask, x, 0).
class Argument {
 public:
  Argument(Value value) : value_(std::move(value)) {}
  Argument(double number) : number_(number), is_number_(true) {}

  bool is_number() const { return is_number_; }
  const Value& value() const { return value_; }
  double number() const { return number_; }

 private:
  Value value_;
  double number_ = 0;
  bool is_number_ = false;
};

// Every scalar function that `rlx ops` lists, under its name there. add, sub, mul, div and neg are the
// operators too.
Value add(Argument a, Argument b);
Value sub(Argument a, Argument b);
Value mul(Argument a, Argument b);
Value div(Argument a, Argument b);
Value neg(Value x);
Value maximum(Argument a, Argument b);
Value minimum(Argument a, Argument b);
Value pow(Argument a, Argument b);
Value mod(Argument a, Argument b);   // has the sign of b, like Python's %
Value fmod(Argument a, Argument b);  // has the sign of a, like C's
Value clamp(Argument x, Argument low, Argument high);
// Two numbers are f32: where(mask, 1, 0).
Value where(Value condition, Argument if_true, Argument if_false);
Value abs(Value x);
Value sign(Value x);
Value square(Value x);
Value reciprocal(Value x);
Value conj(Value x);

Value equal(Argument a, Argument b);
Value not_equal(Argument a, Argument b);
Value less(Argument a, Argument b);
Value less_equal(Argument a, Argument b);
Value greater(Argument a, Argument b);
Value greater_equal(Argument a, Argument b);
// The result of a comparison operator: a Value for each element. It cannot be asked whether it is true, so
// that `if (a == b)` is an error of the compiler. (Whether two Values are the same one, their id() tells.)
class Comparison : public Value {
 public:
  Comparison(Value value) : Value(std::move(value)) {}
  explicit operator bool() const = delete;
};
// At least one of the two is a tensor.
template <class A, class B>
concept Comparable = (std::derived_from<A, Value> || std::derived_from<B, Value>) &&
                     std::convertible_to<A, Argument> && std::convertible_to<B, Argument>;
template <class A, class B>
  requires Comparable<A, B>
Comparison operator==(const A& a, const B& b) {
  return Comparison(equal(a, b));
}
template <class A, class B>
  requires Comparable<A, B>
Comparison operator!=(const A& a, const B& b) {
  return Comparison(not_equal(a, b));
}
template <class A, class B>
  requires Comparable<A, B>
Comparison operator<(const A& a, const B& b) {
  return Comparison(less(a, b));
}
template <class A, class B>
  requires Comparable<A, B>
Comparison operator<=(const A& a, const B& b) {
  return Comparison(less_equal(a, b));
}
template <class A, class B>
  requires Comparable<A, B>
Comparison operator>(const A& a, const B& b) {
  return Comparison(greater(a, b));
}
template <class A, class B>
  requires Comparable<A, B>
Comparison operator>=(const A& a, const B& b) {
  return Comparison(greater_equal(a, b));
}
Value is_nan(Value x);
Value is_inf(Value x);
Value logical_and(Argument a, Argument b);
Value logical_or(Argument a, Argument b);
Value logical_xor(Argument a, Argument b);
Value logical_not(Value x);

Value bitwise_and(Argument a, Argument b);
Value bitwise_or(Argument a, Argument b);
Value bitwise_xor(Argument a, Argument b);
Value bitwise_not(Value x);
Value left_shift(Argument a, Argument n);
Value right_shift(Argument a, Argument n);

Value round(Value x);                     // ties to even
Value round_div(Argument a, Argument b);  // of the quotient, ties to even
// The nearest number of a float of 8 or 4 bits: float8e4m3fn (format 0), float8e4m3fnuz (1), float8e5m2 (2),
// float8e5m2fnuz (3), float4e2m1 (4), float8e8m0 (7; 5: the next above, 6: the next below). What is too large
// becomes the largest one, or infinite or NaN if `saturate` is 0.
Value round_to_format(Argument x, Argument format, Argument saturate);
Value floor(Value x);
Value ceil(Value x);
Value trunc(Value x);

Value exp(Value x);
Value exp2(Value x);
Value expm1(Value x);
Value log(Value x);
Value log2(Value x);
Value log1p(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value sin(Value x);
Value cos(Value x);
Value tan(Value x);
Value asin(Value x);
Value acos(Value x);
Value atan(Value x);
Value atan2(Argument y, Argument x);
Value sinh(Value x);
Value cosh(Value x);
Value tanh(Value x);
Value asinh(Value x);
Value acosh(Value x);
Value atanh(Value x);
Value erf(Value x);

Value relu(Value x);
Value leaky_relu(Argument x, Argument alpha);
Value thresholded_relu(Argument x, Argument alpha);
Value sigmoid(Value x);
Value hard_sigmoid(Argument x, Argument alpha, Argument beta);
Value gelu(Value x);         // the exact form, with erf
Value gelu_approx(Value x);  // the tanh form
Value silu(Value x);
Value hard_swish(Value x);
Value mish(Value x);
Value softplus(Value x);
Value softsign(Value x);
Value elu(Argument x, Argument alpha);
Value celu(Argument x, Argument alpha);
Value selu(Value x);

Value cast(Value x, DType to);
// The bits of each element as another type of the same size, NaN payloads included: among f32, i32 and u32,
// between i8 and u8, and from bool. A view: it costs nothing.
Value bitcast(Value x, DType to);

// Whole numbers: start, start + step, ... (`length` of them), a vector whose size may depend on symbols.
Value range(Graph& graph, Dim length, Dim start = 0, int64_t step = 1, DType dtype = DType::i64);

}  // namespace rlx
RLX_EXPORT_END
