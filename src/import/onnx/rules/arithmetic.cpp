// Element-wise ops that take more than a name: mixed types, any number of inputs, attributes.
#include <cmath>

#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// The exponent may have another type; the result has that of the base.
void pow_rule(Call& c) {
  c.expect_inputs(2, 2);
  Value base = c.in(0);
  Value exponent = c.second();
  const DType type = base.dtype();
  if (exponent.dtype() != type) {
    const DType common = is_float(type) ? type : is_float(exponent.dtype()) ? DType::f32 : type;
    exponent = exponent.dtype() == common ? exponent : cast(exponent, common);
    base = base.dtype() == common ? base : cast(base, common);
  }
  const Value y = pow(base, exponent);
  c.out(c.wrapped(y.dtype() == type ? y : cast(y, type), c.type(0)));
}

void mod_rule(Call& c) {
  c.expect_inputs(2, 2);
  const bool fmod_sign = c.integer("fmod", 0) != 0;
  if (!fmod_sign && is_float(c.type(0))) fail("floats need fmod=1");
  c.out(fmod_sign ? fmod(c.in(0), c.in(1)) : mod(c.in(0), c.in(1)));
}

Value folded(Call& c, Value (*f)(Argument, Argument)) {
  c.expect_inputs(1, 1 << 20);
  Value y = c.in(0);
  for (int64_t i = 1; i < c.input_count(); ++i) y = f(y, c.in(i));
  return y;
}
void max_rule(Call& c) { c.out(folded(c, maximum)); }
void min_rule(Call& c) { c.out(folded(c, minimum)); }
void sum_rule(Call& c) { c.out(folded(c, add)); }
void mean_rule(Call& c) { c.out(folded(c, add) / static_cast<double>(c.input_count())); }

void clip_rule(Call& c) {
  c.expect_inputs(1, 3);
  Value y = c.in(0);
  if (c.opset() < 11) {
    if (c.has_attribute("min")) y = maximum(y, c.like(y, c.real("min")));
    if (c.has_attribute("max")) y = minimum(y, c.like(y, c.real("max")));
  } else {
    if (c.has(1)) y = maximum(y, c.in(1));
    if (c.has(2)) y = minimum(y, c.in(2));
  }
  c.out(y);
}

void shift_rule(Call& c) {
  c.expect_inputs(2, 2);
  const std::string direction = c.text("direction");
  if (direction != "LEFT" && direction != "RIGHT") fail("its direction is '{}'", excerpt(direction));
  c.out(c.wrapped(direction == "LEFT" ? left_shift(c.in(0), c.in(1)) : right_shift(c.in(0), c.in(1)),
                  c.type(0)));
}

void is_inf_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Value x = c.in(0);
  const bool positive = c.flag("detect_positive", true);
  const bool negative = c.flag("detect_negative", true);
  Value y = is_inf(x);
  if (!positive) y = logical_and(y, less(x, 0));
  if (!negative) y = logical_and(y, greater(x, 0));
  c.out(0, y, ElementType::boolean);
}

void prelu_rule(Call& c) {
  c.expect_inputs(2, 2);
  const Value x = c.in(0);
  Value slope = c.in(1);
  // Before opset 7 a vector has one slope for each channel.
  if (c.opset() < 7 && slope.shape().rank() == 1 && x.shape().rank() > 1) {
    Shape channels = slope.shape();
    for (int64_t i = 2; i < x.shape().rank(); ++i) channels.push_back(1);
    slope = reshape(slope, channels);
  }
  c.out(where(less(x, 0), x * slope, x));
}

void selu_rule(Call& c) {
  c.expect_inputs(1, 1);
  const double alpha = c.real("alpha", 1.67326319217681884765625);
  const double gamma = c.real("gamma", 1.05070102214813232421875);
  const Value x = c.in(0);
  if (std::abs(alpha - 1.6732632) < 1e-6 && std::abs(gamma - 1.0507010) < 1e-6) return c.out(selu(x));
  c.out(elu(x, alpha) * gamma);
}

void gelu_rule(Call& c) {
  c.expect_inputs(1, 1);
  const std::string how = c.text("approximate", "none");
  if (how != "none" && how != "tanh") fail("its approximation is '{}'", excerpt(how));
  c.out(how == "tanh" ? gelu_approx(c.in(0)) : gelu(c.in(0)));
}

void shrink_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Value x = c.in(0);
  const double lambda = c.real("lambd", 0.5);
  const double bias = c.real("bias", 0);
  const DType type = x.dtype();
  const Value wide = is_float(type) ? x : cast(x, DType::f32);
  const Value y = where(less(wide, -lambda), wide + bias, where(greater(wide, lambda), wide - bias, 0));
  c.out(is_float(type) ? y : cast(y, type));
}

void swish_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Value x = c.in(0);
  const double alpha = c.real("alpha", 1);
  c.out(alpha == 1 ? silu(x) : x * sigmoid(x * alpha));
}

}  // namespace

namespace rules {
void register_arithmetic(RuleTable& table) {
  table.add("Pow", pow_rule);
  table.add("Mod", mod_rule);
  table.add("Max", max_rule);
  table.add("Min", min_rule);
  table.add("Sum", sum_rule);
  table.add("Mean", mean_rule);
  table.add("Clip", clip_rule);
  table.add("BitShift", shift_rule);
  table.add("IsInf", is_inf_rule);
  table.add("PRelu", prelu_rule);
  table.add("Selu", selu_rule);
  table.add("Gelu", gelu_rule);
  table.add("Shrink", shrink_rule);
  table.add("Swish", swish_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
