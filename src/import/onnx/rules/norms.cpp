// Norms over trailing axes, over channels and over groups of them.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

// Asks for a precision at least; here norms are computed in f32 anyway.
constexpr std::string_view kPrecision = "stash_type";

// gamma and beta broadcast to the normalised axes.
Value over_axes(Value v, const Shape& shape, int64_t axis) {
  if (!v) return v;
  Shape wanted;
  for (int64_t i = axis; i < shape.rank(); ++i) wanted.push_back(shape[i]);
  return v.shape() == wanted ? v : expand(v, wanted);
}

void layer_norm_rule(Call& c) {
  c.expect_inputs(1, 3);
  c.ignores(kPrecision);
  const Value x = c.in(0);
  const int64_t axis = c.axis("axis", -1, x.shape().rank());
  const double eps = c.real("epsilon", 1e-5);
  const DType type = x.dtype();
  const Value gamma = over_axes(c.optional(1), x.shape(), axis);
  const Value beta = over_axes(c.optional(2), x.shape(), axis);
  c.out(layer_norm(x, gamma, beta, eps, axis));
  if (!c.wants(1) && !c.wants(2)) return;
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < x.shape().rank(); ++i) axes.push_back(i);
  const Value wide = type == DType::f32 ? x : cast(x, DType::f32);
  const Value average = mean(wide, axes, true);
  const Value deviation = rsqrt(mean(square(wide - average), axes, true) + eps);
  const ElementType stash = c.element_type("stash_type", ElementType::float32);
  const auto stashed = [&](Value v) { return v.dtype() == c.carried(stash) ? v : cast(v, c.carried(stash)); };
  if (c.wants(1)) c.out(1, stashed(average), stash);
  if (c.wants(2)) c.out(2, stashed(deviation), stash);
}

void rms_norm_rule(Call& c) {
  c.expect_inputs(1, 2);
  c.ignores(kPrecision);
  const Value x = c.in(0);
  const int64_t axis = c.axis("axis", -1, x.shape().rank());
  c.out(rms_norm(x, over_axes(c.optional(1), x.shape(), axis), {}, c.real("epsilon", 1e-5), axis));
}

Value as_f32(Value v) { return v.dtype() == DType::f32 ? v : cast(v, DType::f32); }
Value as_type(Value v, DType type) { return v.dtype() == type ? v : cast(v, type); }

void batch_norm_rule(Call& c) {
  c.expect_inputs(5, 5);
  const Value x = c.in(0);
  const double eps = c.real("epsilon", 1e-5);
  c.ignores("momentum");  // of training
  if (c.opset() < 7) c.ignores("is_test");
  const bool training = c.opset() >= 14 && c.flag("training_mode", false);
  if (!c.flag("spatial", true))
    c.refuse(Refusal::other, "statistics for each element, not each channel, are not supported");
  if (c.opset() < 14 && (c.wants(1) || c.wants(2) || c.wants(3) || c.wants(4)))
    c.refuse(Refusal::other, "training in the form before opset 14 is not supported");
  if (!training) return c.out(batch_norm(x, c.in(3), c.in(4), c.in(1), c.in(2), eps));
  // The statistics are those of x; mean and variance that are given move towards them.
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.shape().rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  const Value wide = as_f32(x);
  const Value average = mean(wide, axes, true);
  const Value variance = mean(square(wide - average), axes);
  const Value middle = reshape(average, variance.shape());
  c.out(batch_norm(x, middle, variance, c.in(1), c.in(2), eps));
  const double momentum = c.real("momentum", 0.9);
  const auto moved = [&](int64_t input, Value now) {
    return as_type(as_f32(c.in(input)) * momentum + now * (1 - momentum), c.carried(c.type(input)));
  };
  if (c.wants(1)) c.out(1, moved(3, middle), c.type(3));
  if (c.wants(2)) c.out(2, moved(4, variance), c.type(4));
}

void instance_norm_rule(Call& c) {
  c.expect_inputs(3, 3);
  c.out(instance_norm(c.in(0), c.in(1), c.in(2), c.real("epsilon", 1e-5)));
}

void group_norm_rule(Call& c) {
  c.expect_inputs(3, 3);
  c.ignores(kPrecision);
  const Value x = c.in(0);
  const int64_t groups = c.integer("num_groups");
  // Before opset 21 there is an entry for each group.
  const auto per_channel = [&](Value v) {
    const Dim channels = x.shape()[1];
    if (c.opset() >= 21 || !channels.is_static() || groups < 1) return v;
    return reshape(expand(reshape(v, {groups, 1}), {groups, channels.floor_div(groups)}), {channels});
  };
  c.out(group_norm(x, groups, per_channel(c.in(1)), per_channel(c.in(2)), c.real("epsilon", 1e-5)));
}

void lrn_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.out(local_response_norm(c.in(0), c.integer("size"), c.real("alpha", 1e-4), c.real("beta", 0.75),
                            c.real("bias", 1)));
}

void lp_normalization_rule(Call& c) {
  c.expect_inputs(1, 1);
  const int64_t axis = c.axis("axis", -1, c.rank(0));
  c.out(lp_normalize(c.in(0), c.integer("p", 2), axis));
}

void mean_variance_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.out(mean_variance_norm(c.in(0), c.axes(1, c.rank(0)).value_or(std::vector<int64_t>{0, 2, 3})));
}

}  // namespace

namespace rules {
void register_norms(RuleTable& table) {
  table.add("BatchNormalization", batch_norm_rule);
  table.add("InstanceNormalization", instance_norm_rule);
  table.add("GroupNormalization", group_norm_rule);
  table.add("LRN", lrn_rule);
  table.add("LpNormalization", lp_normalization_rule);
  table.add("MeanVarianceNormalization", mean_variance_rule);
  table.add("LayerNormalization", layer_norm_rule);
  table.add("RMSNormalization", rms_norm_rule);
  // An op of ONNX Runtime, which exporters put in ONNX's own domain too.
  table.add("SimplifiedLayerNormalization", rms_norm_rule);
  table.add(kMicrosoft, "SimplifiedLayerNormalization", rms_norm_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
