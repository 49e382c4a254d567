// Mamba-2: gated linear attention whose keys, queries and values are b, c and delta x.
#include <cmath>

#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/state_space.h"

namespace rlx {

// Everything is f32 up to y, which is rounded once.
Scanned state_space_dual(Value x, Value delta, Value a, Value b, Value c, const StateSpaceDualOptions& o) {
  if (x.shape().rank() != 4 || delta.shape().rank() != 3)
    fail(
        "state_space_dual: x is {} and delta {}; they must be [batch, steps, heads, values] and [batch, "
        "steps, heads]",
        x.shape().text(), delta.shape().text());
  const Dim heads = x.shape()[2];
  const auto wide = [](Value v) { return v.dtype() == DType::f32 ? v : cast(v, DType::f32); };
  const auto of_head = [&](Value v, std::string_view what) {
    if (v.shape().rank() != 1 || !(v.shape()[0] == heads))
      fail("state_space_dual: {} is {}; it must be [{}]", what, v.shape().text(), heads.text());
    return wide(v);
  };
  const Shape column{heads, 1};
  Value step = wide(delta);
  if (o.delta_bias) step = step + of_head(o.delta_bias, "the bias of delta");
  if (o.delta_softplus) step = softplus(step);
  const Value input = wide(x);
  const Shape& d = delta.shape();
  const Value scaled = input * reshape(step, {d[0], d[1], d[2], 1});
  auto [y, state] = gated_linear_attention(c, b, scaled, step * of_head(a, "a"),
                                           {.scale = 1, .initial_state = o.initial_state});
  if (o.d) y = y + input * reshape(of_head(o.d, "d"), column);
  if (o.z) y = y * silu(wide(o.z));
  return {x.dtype() == DType::f32 ? y : cast(y, x.dtype()), state};
}

namespace {

struct StateSpaceDual final : Composite<StateSpaceDual> {
  static constexpr auto kName = "state_space_dual";
  static constexpr int64_t kLeast = 5, kMost = 9;
  bool softplus = false;
  void visit_attributes(AttributeVisitor& v) override { v("delta_softplus", softplus, false); }
  // What is kept is e^(delta a), and grows from step to step if that is more than 1.
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    if (input == 1) return ValueRange{.low = 0, .high = 1};
    return input == 2 ? std::optional(ValueRange{.low = -1, .high = 0}) : std::nullopt;
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    const auto [y, state] = state_space_dual(
        in[0], in[1], in[2], in[3], in[4],
        {.d = in[5], .z = in[6], .delta_bias = in[7], .delta_softplus = softplus, .initial_state = in[8]});
    return {y, state};
  }
  // As that of gated linear attention without a scale.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const auto states = static_cast<double>(inputs[3].shape[3].value());
    const double remembered = std::min(static_cast<double>(inputs[0].shape[1].value()), 64.0);
    return {.ulps = 24, .terms = states + remembered, .scale = 8 * std::sqrt(states * remembered)};
  }
};

}  // namespace

namespace ops {
void register_state_space_dual(OpTable& table) {
  table.add<StateSpaceDual>(
      {.formula = "S = exp(delta a) S + b (delta x)^T, y = (S^T c + d x) silu(z), for each step; delta + "
                  "delta_bias, or its softplus, in place of delta",
       .operands = "x: [batch, steps, heads, values]\n"
                   "delta (float): [batch, steps, heads], the size of each step\n"
                   "a (float): [heads], how fast the state of a head decays\n"
                   "b (float): [batch, steps, groups, states], what x adds to the state; neighbouring heads "
                   "share a group\n"
                   "c (float): [batch, steps, groups, states], what the state adds to y\n"
                   "d? (float): [heads]; d x is added to y, or nothing if left out\n"
                   "z? (float): of the shape of x; at the end y is multiplied by silu(z), if it is given\n"
                   "delta_bias? (float): [heads], added to delta; 0 if left out\n"
                   "initial_state? (f32): [batch, heads, states, values]; zeros if left out",
       .attributes = "delta_softplus: the softplus of delta and its bias takes the place of delta",
       .outputs = "y: [batch, steps, heads, values]\n"
                  "state (f32): [batch, heads, states, values], the state after the last step",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"state_space_dual(T[2,5,4,8], T[2,5,4], T[4] in -2..0, T[2,5,2,16], T[2,5,2,16], T[4], "
                   "T[2,5,4,8], T[4], f32[2,4,16,8]) {delta_softplus=true}",
                   "state_space_dual(T[1,33,2,5], T[1,33,2] in 0..0.5, T[2] in -2..0, T[1,33,1,3], "
                   "T[1,33,1,3])"}});
}
}  // namespace ops

}  // namespace rlx
