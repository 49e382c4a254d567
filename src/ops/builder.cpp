// The element-wise functions of rlx/ops.h; other ops define theirs beside the op.
#include "ops/elementwise.h"
#include "rlx/ops.h"

namespace rlx {

Value apply(std::string_view function, const std::vector<Value>& inputs) {
  const ScalarFn* fn = find_scalar(function);
  if (!fn) fail("there is no element-wise function named '{}' (`rlx ops` lists them)", function);
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

Value maximum(Value a, Value b) { return apply("max", {a, b}); }
Value minimum(Value a, Value b) { return apply("min", {a, b}); }
Value pow(Value a, Value b) { return apply("pow", {a, b}); }
Value equal(Value a, Value b) { return apply("eq", {a, b}); }
Value less(Value a, Value b) { return apply("lt", {a, b}); }
Value greater(Value a, Value b) { return apply("gt", {a, b}); }
Value where(Value condition, Value if_true, Value if_false) {
  return apply("where", {condition, if_true, if_false});
}
Value relu(Value x) { return apply("relu", {x}); }
Value sigmoid(Value x) { return apply("sigmoid", {x}); }
Value tanh(Value x) { return apply("tanh", {x}); }
Value exp(Value x) { return apply("exp", {x}); }
Value log(Value x) { return apply("log", {x}); }
Value sqrt(Value x) { return apply("sqrt", {x}); }
Value rsqrt(Value x) { return apply("rsqrt", {x}); }
Value abs(Value x) { return apply("abs", {x}); }
Value gelu(Value x) { return apply("gelu", {x}); }
Value gelu_approx(Value x) { return apply("gelu_approx", {x}); }
Value silu(Value x) { return apply("silu", {x}); }
Value erf(Value x) { return apply("erf", {x}); }

Value cast(Value x, DType to) {
  auto op = std::make_shared<Cast>();
  op->to = to;
  return x.graph().add_value(op, {x});
}

}  // namespace rlx
