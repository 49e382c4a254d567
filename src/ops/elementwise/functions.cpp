// The element-wise functions of rlx/ops.h; other ops define theirs next to the op.
#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/quantization.h"

namespace rlx {

Value apply_function(std::string_view function, const std::vector<Value>& inputs) {
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
  return apply_function(function, inputs);
}

}  // namespace

Value operator+(Value a, Value b) { return apply_function("add", std::vector<Value>{a, b}); }
Value operator-(Value a, Value b) { return apply_function("sub", std::vector<Value>{a, b}); }
Value operator*(Value a, Value b) { return apply_function("mul", std::vector<Value>{a, b}); }
Value operator/(Value a, Value b) { return apply_function("div", std::vector<Value>{a, b}); }
Value operator-(Value a) { return apply_function("neg", std::vector<Value>{a}); }
Value operator+(Value a, double b) { return a + number(a, b); }
Value operator-(Value a, double b) { return a - number(a, b); }
Value operator*(Value a, double b) { return a * number(a, b); }
Value operator/(Value a, double b) { return a / number(a, b); }
Value operator+(double a, Value b) { return number(b, a) + b; }
Value operator-(double a, Value b) { return number(b, a) - b; }
Value operator*(double a, Value b) { return number(b, a) * b; }
Value operator/(double a, Value b) { return number(b, a) / b; }

// One per row of the table in ops/elementwise/scalar.cpp.
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
  const auto value = [&](const Argument& a, const Argument& other) {
    if (!a.is_number()) return a.value();
    return other.is_number() ? condition.graph().scalar(DType::f32, a.number())
                             : number(other.value(), a.number());
  };
  return apply_function("where", {condition, value(if_true, if_false), value(if_false, if_true)});
}
Value neg(Value x) { return apply_function("neg", std::vector<Value>{x}); }
Value abs(Value x) { return apply_function("abs", std::vector<Value>{x}); }
Value sign(Value x) { return apply_function("sign", std::vector<Value>{x}); }
Value square(Value x) { return apply_function("square", std::vector<Value>{x}); }
Value reciprocal(Value x) { return apply_function("reciprocal", std::vector<Value>{x}); }
Value conj(Value x) { return apply_function("conj", std::vector<Value>{x}); }
Value bitwise_and(Argument a, Argument b) { return apply("bitwise_and", std::vector<Argument>{a, b}); }
Value bitwise_or(Argument a, Argument b) { return apply("bitwise_or", std::vector<Argument>{a, b}); }
Value bitwise_xor(Argument a, Argument b) { return apply("bitwise_xor", std::vector<Argument>{a, b}); }
Value bitwise_not(Value x) { return apply_function("bitwise_not", std::vector<Value>{x}); }
Value left_shift(Argument a, Argument b) { return apply("left_shift", std::vector<Argument>{a, b}); }
Value right_shift(Argument a, Argument b) { return apply("right_shift", std::vector<Argument>{a, b}); }
Value equal(Argument a, Argument b) { return apply("equal", std::vector<Argument>{a, b}); }
Value not_equal(Argument a, Argument b) { return apply("not_equal", std::vector<Argument>{a, b}); }
Value less(Argument a, Argument b) { return apply("less", std::vector<Argument>{a, b}); }
Value less_equal(Argument a, Argument b) { return apply("less_equal", std::vector<Argument>{a, b}); }
Value greater(Argument a, Argument b) { return apply("greater", std::vector<Argument>{a, b}); }
Value greater_equal(Argument a, Argument b) { return apply("greater_equal", std::vector<Argument>{a, b}); }
Value is_nan(Value x) { return apply_function("is_nan", std::vector<Value>{x}); }
Value is_inf(Value x) { return apply_function("is_inf", std::vector<Value>{x}); }
Value logical_and(Argument a, Argument b) { return apply("logical_and", std::vector<Argument>{a, b}); }
Value logical_or(Argument a, Argument b) { return apply("logical_or", std::vector<Argument>{a, b}); }
Value logical_xor(Argument a, Argument b) { return apply("logical_xor", std::vector<Argument>{a, b}); }
Value logical_not(Value x) { return apply_function("logical_not", std::vector<Value>{x}); }
Value round_div(Argument a, Argument b) { return apply("round_div", std::vector<Argument>{a, b}); }
Value round_to_u8(Argument x, Argument scale, Argument zero) {
  return apply("round_to_u8", std::vector<Argument>{x, scale, zero});
}
Value round_to_i8(Argument x, Argument scale, Argument zero) {
  return apply("round_to_i8", std::vector<Argument>{x, scale, zero});
}
Value round_div_away(Argument a, Argument b) { return apply("round_div_away", std::vector<Argument>{a, b}); }
Value round_to_format(Argument x, Argument format, Argument saturate) {
  return apply("round_to_format", std::vector<Argument>{x, format, saturate});
}
Value round(Value x) { return apply_function("round", std::vector<Value>{x}); }
Value floor(Value x) { return apply_function("floor", std::vector<Value>{x}); }
Value ceil(Value x) { return apply_function("ceil", std::vector<Value>{x}); }
Value trunc(Value x) { return apply_function("trunc", std::vector<Value>{x}); }
Value exp(Value x) { return apply_function("exp", std::vector<Value>{x}); }
Value exp2(Value x) { return apply_function("exp2", std::vector<Value>{x}); }
Value expm1(Value x) { return apply_function("expm1", std::vector<Value>{x}); }
Value log(Value x) { return apply_function("log", std::vector<Value>{x}); }
Value log2(Value x) { return apply_function("log2", std::vector<Value>{x}); }
Value log1p(Value x) { return apply_function("log1p", std::vector<Value>{x}); }
Value sqrt(Value x) { return apply_function("sqrt", std::vector<Value>{x}); }
Value rsqrt(Value x) { return apply_function("rsqrt", std::vector<Value>{x}); }
Value sin(Value x) { return apply_function("sin", std::vector<Value>{x}); }
Value cos(Value x) { return apply_function("cos", std::vector<Value>{x}); }
Value tan(Value x) { return apply_function("tan", std::vector<Value>{x}); }
Value asin(Value x) { return apply_function("asin", std::vector<Value>{x}); }
Value acos(Value x) { return apply_function("acos", std::vector<Value>{x}); }
Value atan(Value x) { return apply_function("atan", std::vector<Value>{x}); }
Value atan2(Argument a, Argument b) { return apply("atan2", std::vector<Argument>{a, b}); }
Value sinh(Value x) { return apply_function("sinh", std::vector<Value>{x}); }
Value cosh(Value x) { return apply_function("cosh", std::vector<Value>{x}); }
Value tanh(Value x) { return apply_function("tanh", std::vector<Value>{x}); }
Value asinh(Value x) { return apply_function("asinh", std::vector<Value>{x}); }
Value acosh(Value x) { return apply_function("acosh", std::vector<Value>{x}); }
Value atanh(Value x) { return apply_function("atanh", std::vector<Value>{x}); }
Value erf(Value x) { return apply_function("erf", std::vector<Value>{x}); }
Value relu(Value x) { return apply_function("relu", std::vector<Value>{x}); }
Value leaky_relu(Argument a, Argument b) { return apply("leaky_relu", std::vector<Argument>{a, b}); }
Value thresholded_relu(Argument a, Argument b) {
  return apply("thresholded_relu", std::vector<Argument>{a, b});
}
Value sigmoid(Value x) { return apply_function("sigmoid", std::vector<Value>{x}); }
Value hard_sigmoid(Argument a, Argument b, Argument c) {
  return apply("hard_sigmoid", std::vector<Argument>{a, b, c});
}
Value gelu(Value x) { return apply_function("gelu", std::vector<Value>{x}); }
Value gelu_approx(Value x) { return apply_function("gelu_approx", std::vector<Value>{x}); }
Value silu(Value x) { return apply_function("silu", std::vector<Value>{x}); }
Value hard_swish(Value x) { return apply_function("hard_swish", std::vector<Value>{x}); }
Value mish(Value x) { return apply_function("mish", std::vector<Value>{x}); }
Value softplus(Value x) { return apply_function("softplus", std::vector<Value>{x}); }
Value softsign(Value x) { return apply_function("softsign", std::vector<Value>{x}); }
Value elu(Argument a, Argument b) { return apply("elu", std::vector<Argument>{a, b}); }
Value celu(Argument a, Argument b) { return apply("celu", std::vector<Argument>{a, b}); }
Value selu(Value x) { return apply_function("selu", std::vector<Value>{x}); }

Value cast(Value x, DType to) {
  auto op = std::make_shared<Cast>();
  op->to = to;
  return add_node(op, {x});
}

}  // namespace rlx
