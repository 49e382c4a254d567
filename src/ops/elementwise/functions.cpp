// The element-wise functions of rlx/ops.h; other ops define theirs next to the op.
#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops.h"

namespace rlx {

Value apply(std::string_view function, const std::vector<Value>& inputs) {
  const ScalarFn* fn = find_scalar(function);
  if (!fn) fail("the op '{}' is not an element-wise function", op_table().at(function).name);
  if (inputs.empty()) fail("{}: takes {} inputs, not 0", function, fn->arity);
  return add_node(elementwise(function), inputs);
}

namespace {

Value number(Value like, double value) { return like.graph().scalar(value_dtype(like.dtype()), value); }

Value operand(const Argument& argument, const Value& like) {
  return argument.is_number() ? number(like, argument.number()) : argument.value();
}

// Numbers take the type of the first tensor.
Value apply(std::string_view function, const std::vector<Argument>& arguments) {
  const auto like = std::ranges::find_if_not(arguments, &Argument::is_number);
  if (like == arguments.end())
    fail(ErrorKind::invalid_argument, "{}: one of the arguments must be a tensor", function);
  std::vector<Value> inputs;
  for (const Argument& a : arguments) inputs.push_back(operand(a, like->value()));
  return rlx::apply(function, inputs);
}

}  // namespace

Value operator+(Value a, Value b) { return rlx::apply("add", std::vector<Value>{a, b}); }
Value operator-(Value a, Value b) { return rlx::apply("sub", std::vector<Value>{a, b}); }
Value operator*(Value a, Value b) { return rlx::apply("mul", std::vector<Value>{a, b}); }
Value operator/(Value a, Value b) { return rlx::apply("div", std::vector<Value>{a, b}); }
Value operator-(Value a) { return rlx::apply("neg", std::vector<Value>{a}); }
Value operator+(Value a, double b) { return a + number(a, b); }
Value operator-(Value a, double b) { return a - number(a, b); }
Value operator*(Value a, double b) { return a * number(a, b); }
Value operator/(Value a, double b) { return a / number(a, b); }
Value operator+(double a, Value b) { return number(b, a) + b; }
Value operator-(double a, Value b) { return number(b, a) - b; }
Value operator*(double a, Value b) { return number(b, a) * b; }
Value operator/(double a, Value b) { return number(b, a) / b; }

// One per row of the table in ops/scalar.cpp.
Value add(Argument a, Argument b) { return apply("add", std::vector<Argument>{a, b}); }
Value sub(Argument a, Argument b) { return apply("sub", std::vector<Argument>{a, b}); }
Value mul(Argument a, Argument b) { return apply("mul", std::vector<Argument>{a, b}); }
Value div(Argument a, Argument b) { return apply("div", std::vector<Argument>{a, b}); }
Value maximum(Argument a, Argument b) { return apply("maximum", std::vector<Argument>{a, b}); }
Value minimum(Argument a, Argument b) { return apply("minimum", std::vector<Argument>{a, b}); }
Value pow(Argument a, Argument b) { return apply("pow", std::vector<Argument>{a, b}); }
Value mod(Argument a, Argument b) { return apply("mod", std::vector<Argument>{a, b}); }
Value fmod(Argument a, Argument b) { return apply("fmod", std::vector<Argument>{a, b}); }
Value clamp(Argument a, Argument b, Argument c) { return apply("clamp", std::vector<Argument>{a, b, c}); }
Value where(Value condition, Argument if_true, Argument if_false) {
  const Value& like = if_true.is_number() ? if_false.value() : if_true.value();
  return rlx::apply("where", std::vector<Value>{condition, operand(if_true, like), operand(if_false, like)});
}
Value neg(Value x) { return rlx::apply("neg", std::vector<Value>{x}); }
Value abs(Value x) { return rlx::apply("abs", std::vector<Value>{x}); }
Value sign(Value x) { return rlx::apply("sign", std::vector<Value>{x}); }
Value square(Value x) { return rlx::apply("square", std::vector<Value>{x}); }
Value reciprocal(Value x) { return rlx::apply("reciprocal", std::vector<Value>{x}); }
Value conj(Value x) { return rlx::apply("conj", std::vector<Value>{x}); }
Value bitwise_and(Argument a, Argument b) { return apply("bitwise_and", std::vector<Argument>{a, b}); }
Value bitwise_or(Argument a, Argument b) { return apply("bitwise_or", std::vector<Argument>{a, b}); }
Value bitwise_xor(Argument a, Argument b) { return apply("bitwise_xor", std::vector<Argument>{a, b}); }
Value bitwise_not(Value x) { return rlx::apply("bitwise_not", std::vector<Value>{x}); }
Value left_shift(Argument a, Argument b) { return apply("left_shift", std::vector<Argument>{a, b}); }
Value right_shift(Argument a, Argument b) { return apply("right_shift", std::vector<Argument>{a, b}); }
Value equal(Argument a, Argument b) { return apply("equal", std::vector<Argument>{a, b}); }
Value not_equal(Argument a, Argument b) { return apply("not_equal", std::vector<Argument>{a, b}); }
Value less(Argument a, Argument b) { return apply("less", std::vector<Argument>{a, b}); }
Value less_equal(Argument a, Argument b) { return apply("less_equal", std::vector<Argument>{a, b}); }
Value greater(Argument a, Argument b) { return apply("greater", std::vector<Argument>{a, b}); }
Value greater_equal(Argument a, Argument b) { return apply("greater_equal", std::vector<Argument>{a, b}); }
Value is_nan(Value x) { return rlx::apply("is_nan", std::vector<Value>{x}); }
Value is_inf(Value x) { return rlx::apply("is_inf", std::vector<Value>{x}); }
Value logical_and(Argument a, Argument b) { return apply("logical_and", std::vector<Argument>{a, b}); }
Value logical_or(Argument a, Argument b) { return apply("logical_or", std::vector<Argument>{a, b}); }
Value logical_xor(Argument a, Argument b) { return apply("logical_xor", std::vector<Argument>{a, b}); }
Value logical_not(Value x) { return rlx::apply("logical_not", std::vector<Value>{x}); }
Value round_div(Argument a, Argument b) { return apply("round_div", std::vector<Argument>{a, b}); }
Value round_div_away(Argument a, Argument b) { return apply("round_div_away", std::vector<Argument>{a, b}); }
Value round_to_format(Argument x, Argument format, Argument saturate) {
  return apply("round_to_format", std::vector<Argument>{x, format, saturate});
}
Value round(Value x) { return rlx::apply("round", std::vector<Value>{x}); }
Value floor(Value x) { return rlx::apply("floor", std::vector<Value>{x}); }
Value ceil(Value x) { return rlx::apply("ceil", std::vector<Value>{x}); }
Value trunc(Value x) { return rlx::apply("trunc", std::vector<Value>{x}); }
Value exp(Value x) { return rlx::apply("exp", std::vector<Value>{x}); }
Value exp2(Value x) { return rlx::apply("exp2", std::vector<Value>{x}); }
Value expm1(Value x) { return rlx::apply("expm1", std::vector<Value>{x}); }
Value log(Value x) { return rlx::apply("log", std::vector<Value>{x}); }
Value log2(Value x) { return rlx::apply("log2", std::vector<Value>{x}); }
Value log1p(Value x) { return rlx::apply("log1p", std::vector<Value>{x}); }
Value sqrt(Value x) { return rlx::apply("sqrt", std::vector<Value>{x}); }
Value rsqrt(Value x) { return rlx::apply("rsqrt", std::vector<Value>{x}); }
Value sin(Value x) { return rlx::apply("sin", std::vector<Value>{x}); }
Value cos(Value x) { return rlx::apply("cos", std::vector<Value>{x}); }
Value tan(Value x) { return rlx::apply("tan", std::vector<Value>{x}); }
Value asin(Value x) { return rlx::apply("asin", std::vector<Value>{x}); }
Value acos(Value x) { return rlx::apply("acos", std::vector<Value>{x}); }
Value atan(Value x) { return rlx::apply("atan", std::vector<Value>{x}); }
Value atan2(Argument a, Argument b) { return apply("atan2", std::vector<Argument>{a, b}); }
Value sinh(Value x) { return rlx::apply("sinh", std::vector<Value>{x}); }
Value cosh(Value x) { return rlx::apply("cosh", std::vector<Value>{x}); }
Value tanh(Value x) { return rlx::apply("tanh", std::vector<Value>{x}); }
Value asinh(Value x) { return rlx::apply("asinh", std::vector<Value>{x}); }
Value acosh(Value x) { return rlx::apply("acosh", std::vector<Value>{x}); }
Value atanh(Value x) { return rlx::apply("atanh", std::vector<Value>{x}); }
Value erf(Value x) { return rlx::apply("erf", std::vector<Value>{x}); }
Value relu(Value x) { return rlx::apply("relu", std::vector<Value>{x}); }
Value leaky_relu(Argument a, Argument b) { return apply("leaky_relu", std::vector<Argument>{a, b}); }
Value thresholded_relu(Argument a, Argument b) {
  return apply("thresholded_relu", std::vector<Argument>{a, b});
}
Value sigmoid(Value x) { return rlx::apply("sigmoid", std::vector<Value>{x}); }
Value hard_sigmoid(Argument a, Argument b, Argument c) {
  return apply("hard_sigmoid", std::vector<Argument>{a, b, c});
}
Value gelu(Value x) { return rlx::apply("gelu", std::vector<Value>{x}); }
Value gelu_approx(Value x) { return rlx::apply("gelu_approx", std::vector<Value>{x}); }
Value silu(Value x) { return rlx::apply("silu", std::vector<Value>{x}); }
Value hard_swish(Value x) { return rlx::apply("hard_swish", std::vector<Value>{x}); }
Value mish(Value x) { return rlx::apply("mish", std::vector<Value>{x}); }
Value softplus(Value x) { return rlx::apply("softplus", std::vector<Value>{x}); }
Value softsign(Value x) { return rlx::apply("softsign", std::vector<Value>{x}); }
Value elu(Argument a, Argument b) { return apply("elu", std::vector<Argument>{a, b}); }
Value celu(Argument a, Argument b) { return apply("celu", std::vector<Argument>{a, b}); }
Value selu(Value x) { return rlx::apply("selu", std::vector<Value>{x}); }

Value cast(Value x, DType to) {
  auto op = std::make_shared<Cast>();
  op->to = to;
  return add_node(op, {x});
}

}  // namespace rlx
