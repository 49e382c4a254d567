// The element-wise functions of rlx/ops.h; other ops define theirs next to the op.
#include "ops/elementwise.h"
#include "ops/op_table.h"
#include "rlx/ops.h"

namespace rlx {

Value apply(std::string_view function, const std::vector<Value>& inputs) {
  const ScalarFn* fn = find_scalar(function);
  if (!fn) fail("the op '{}' is not an element-wise function", op_table().at(function).name);
  if (inputs.empty()) fail("{}: takes {} inputs, not 0", function, fn->arity);
  return inputs[0].graph().add_value(elementwise(function), inputs);
}

namespace {
Value number(Value like, double value) { return like.graph().scalar(like.dtype(), value); }
}  // namespace

Value operator+(Value a, Value b) { return apply("add", {a, b}); }
Value operator-(Value a, Value b) { return apply("sub", {a, b}); }
Value operator*(Value a, Value b) { return apply("mul", {a, b}); }
Value operator/(Value a, Value b) { return apply("div", {a, b}); }
Value operator-(Value a) { return apply("neg", {a}); }
Value operator+(Value a, double b) { return a + number(a, b); }
Value operator-(Value a, double b) { return a - number(a, b); }
Value operator*(Value a, double b) { return a * number(a, b); }
Value operator/(Value a, double b) { return a / number(a, b); }
Value operator+(double a, Value b) { return number(b, a) + b; }
Value operator-(double a, Value b) { return number(b, a) - b; }
Value operator*(double a, Value b) { return number(b, a) * b; }
Value operator/(double a, Value b) { return number(b, a) / b; }

// One per row of the table in ops/scalar.cpp.
Value add(Value a, Value b) { return apply("add", {a, b}); }
Value sub(Value a, Value b) { return apply("sub", {a, b}); }
Value mul(Value a, Value b) { return apply("mul", {a, b}); }
Value div(Value a, Value b) { return apply("div", {a, b}); }
Value maximum(Value a, Value b) { return apply("maximum", {a, b}); }
Value minimum(Value a, Value b) { return apply("minimum", {a, b}); }
Value pow(Value a, Value b) { return apply("pow", {a, b}); }
Value mod(Value a, Value b) { return apply("mod", {a, b}); }
Value fmod(Value a, Value b) { return apply("fmod", {a, b}); }
Value clamp(Value a, Value b, Value c) { return apply("clamp", {a, b, c}); }
Value where(Value a, Value b, Value c) { return apply("where", {a, b, c}); }
Value neg(Value x) { return apply("neg", {x}); }
Value abs(Value x) { return apply("abs", {x}); }
Value sign(Value x) { return apply("sign", {x}); }
Value square(Value x) { return apply("square", {x}); }
Value reciprocal(Value x) { return apply("reciprocal", {x}); }
Value conj(Value x) { return apply("conj", {x}); }
Value bitwise_and(Value a, Value b) { return apply("bitwise_and", {a, b}); }
Value bitwise_or(Value a, Value b) { return apply("bitwise_or", {a, b}); }
Value bitwise_xor(Value a, Value b) { return apply("bitwise_xor", {a, b}); }
Value bitwise_not(Value x) { return apply("bitwise_not", {x}); }
Value left_shift(Value a, Value b) { return apply("left_shift", {a, b}); }
Value right_shift(Value a, Value b) { return apply("right_shift", {a, b}); }
Value equal(Value a, Value b) { return apply("equal", {a, b}); }
Value not_equal(Value a, Value b) { return apply("not_equal", {a, b}); }
Value less(Value a, Value b) { return apply("less", {a, b}); }
Value less_equal(Value a, Value b) { return apply("less_equal", {a, b}); }
Value greater(Value a, Value b) { return apply("greater", {a, b}); }
Value greater_equal(Value a, Value b) { return apply("greater_equal", {a, b}); }
Value is_nan(Value x) { return apply("is_nan", {x}); }
Value is_inf(Value x) { return apply("is_inf", {x}); }
Value logical_and(Value a, Value b) { return apply("logical_and", {a, b}); }
Value logical_or(Value a, Value b) { return apply("logical_or", {a, b}); }
Value logical_xor(Value a, Value b) { return apply("logical_xor", {a, b}); }
Value logical_not(Value x) { return apply("logical_not", {x}); }
Value round(Value x) { return apply("round", {x}); }
Value floor(Value x) { return apply("floor", {x}); }
Value ceil(Value x) { return apply("ceil", {x}); }
Value trunc(Value x) { return apply("trunc", {x}); }
Value exp(Value x) { return apply("exp", {x}); }
Value exp2(Value x) { return apply("exp2", {x}); }
Value expm1(Value x) { return apply("expm1", {x}); }
Value log(Value x) { return apply("log", {x}); }
Value log2(Value x) { return apply("log2", {x}); }
Value log1p(Value x) { return apply("log1p", {x}); }
Value sqrt(Value x) { return apply("sqrt", {x}); }
Value rsqrt(Value x) { return apply("rsqrt", {x}); }
Value sin(Value x) { return apply("sin", {x}); }
Value cos(Value x) { return apply("cos", {x}); }
Value tan(Value x) { return apply("tan", {x}); }
Value asin(Value x) { return apply("asin", {x}); }
Value acos(Value x) { return apply("acos", {x}); }
Value atan(Value x) { return apply("atan", {x}); }
Value atan2(Value a, Value b) { return apply("atan2", {a, b}); }
Value sinh(Value x) { return apply("sinh", {x}); }
Value cosh(Value x) { return apply("cosh", {x}); }
Value tanh(Value x) { return apply("tanh", {x}); }
Value asinh(Value x) { return apply("asinh", {x}); }
Value acosh(Value x) { return apply("acosh", {x}); }
Value atanh(Value x) { return apply("atanh", {x}); }
Value erf(Value x) { return apply("erf", {x}); }
Value relu(Value x) { return apply("relu", {x}); }
Value leaky_relu(Value a, Value b) { return apply("leaky_relu", {a, b}); }
Value thresholded_relu(Value a, Value b) { return apply("thresholded_relu", {a, b}); }
Value sigmoid(Value x) { return apply("sigmoid", {x}); }
Value hard_sigmoid(Value a, Value b, Value c) { return apply("hard_sigmoid", {a, b, c}); }
Value gelu(Value x) { return apply("gelu", {x}); }
Value gelu_approx(Value x) { return apply("gelu_approx", {x}); }
Value silu(Value x) { return apply("silu", {x}); }
Value hard_swish(Value x) { return apply("hard_swish", {x}); }
Value mish(Value x) { return apply("mish", {x}); }
Value softplus(Value x) { return apply("softplus", {x}); }
Value softsign(Value x) { return apply("softsign", {x}); }
Value elu(Value a, Value b) { return apply("elu", {a, b}); }
Value celu(Value a, Value b) { return apply("celu", {a, b}); }
Value selu(Value x) { return apply("selu", {x}); }

Value cast(Value x, DType to) {
  auto op = std::make_shared<Cast>();
  op->to = to;
  return x.graph().add_value(op, {x});
}

}  // namespace rlx
