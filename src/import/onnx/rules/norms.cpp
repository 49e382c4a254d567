// LayerNormalization and RMSNormalization over the trailing axes.
#include "import/onnx/rules.h"

namespace rlx::onnx {
namespace {

// gamma and beta broadcast to the normalised axes.
Value over_axes(Value v, const Shape& shape, int64_t axis) {
  if (!v) return v;
  Shape wanted;
  for (int64_t i = axis; i < shape.rank(); ++i) wanted.push_back(shape[i]);
  return v.shape() == wanted ? v : expand(v, wanted);
}

void layer_norm_rule(Call& c) {
  c.expect_inputs(1, 3);
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
  const Value x = c.in(0);
  const int64_t axis = c.axis("axis", -1, x.shape().rank());
  c.out(rms_norm(x, over_axes(c.optional(1), x.shape(), axis), {}, c.real("epsilon", 1e-5), axis));
}

}  // namespace

namespace rules {
void register_norms(RuleTable& table) {
  table.add("LayerNormalization", layer_norm_rule);
  table.add("RMSNormalization", rms_norm_rule);
  // An op of ONNX Runtime, which exporters put in ONNX's own domain too.
  table.add("SimplifiedLayerNormalization", rms_norm_rule);
  table.add(kMicrosoft, "SimplifiedLayerNormalization", rms_norm_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
