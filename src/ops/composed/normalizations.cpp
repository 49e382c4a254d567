// Normalisations that are made of other ops.
#include "base/fail.h"
#include "ops/composed/composite.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/reductions.h"

namespace rlx {

// Computed in f32 and rounded once.
Value lp_normalize(Value x, int64_t p, int64_t axis) {
  if (p != 1 && p != 2) fail("lp_normalize: p is {}; it must be 1 or 2", p);
  const Value wide = cast(x, DType::f32);
  const Value norm = p == 1 ? l1_norm(wide, {axis}, true) : l2_norm(wide, {axis}, true);
  return cast(wide / norm, x.dtype());
}

Value mean_variance_norm(Value x, std::vector<int64_t> axes, double eps) {
  const Value wide = cast(x, DType::f32);
  const Value centered = wide - mean(wide, axes, true);
  const Value deviation = sqrt(mean(square(centered), std::move(axes), true));
  return cast(centered / (deviation + eps), x.dtype());
}

namespace {

Tolerance norm_tolerance(const Shape& x) {
  return {.ulps = 64, .terms = static_cast<double>(x.elements().value()), .scale = 8};
}

struct InstanceNorm final : Composite<InstanceNorm> {
  static constexpr auto kName = "instance_norm";
  static constexpr int64_t kLeast = 1, kMost = 3;
  double eps = 1e-5;
  ConvLayout layout = ConvLayout::channels_first;
  void visit_attributes(AttributeVisitor& v) override {
    v("eps", eps, 1e-5);
    v.choice("layout", layout, {"channels_first", "channels_last"},
             std::optional(ConvLayout::channels_first));
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {instance_norm(in[0], in[1], in[2], eps, layout)};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return norm_tolerance(inputs[0].shape);
  }
};
struct LpNormalize final : Composite<LpNormalize> {
  static constexpr auto kName = "lp_normalize";
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t p = 2, axis = -1;
  void visit_attributes(AttributeVisitor& v) override {
    v("p", p, 2);
    v("axis", axis, -1);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {lp_normalize(in[0], p, axis)};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return norm_tolerance(inputs[0].shape);
  }
};
struct MeanVarianceNorm final : Composite<MeanVarianceNorm> {
  static constexpr auto kName = "mean_variance_norm";
  static constexpr int64_t kLeast = 1, kMost = 1;
  std::vector<int64_t> axes;
  double eps = 1e-9;
  void visit_attributes(AttributeVisitor& v) override {
    v("axes", axes, {});
    v("eps", eps, 1e-9);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {mean_variance_norm(in[0], axes, eps)};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return norm_tolerance(inputs[0].shape);
  }
};

}  // namespace

namespace ops {
void register_composed_norms(OpTable& table) {
  add_composite<InstanceNorm>(
      table, "group_norm with a group for each channel",
      {.operands = "x: [batch, channels, spatial..], or as the layout says\n"
                   "gamma? (float): [channels], factors; ones if left out\n"
                   "beta? (float): [channels], added to that; zeros if left out",
       .attributes = "eps: added to the variance\n"
                     "layout: the order of axes of x and the result"},
      kFloatTypes,
      {"(T[2,3,17])", "(T[2,3,5,7], T[3], T[3])", "(T[2,5,7,3], T[3]) {layout=\"channels_last\"}"});
  add_composite<LpNormalize>(table, "x / (sum |x|^p)^(1/p) along the axis",
                             {.operands = "x: what is divided by its norm",
                              .attributes = "p: 1 or 2\n"
                                            "axis: along which the norm is taken"},
                             kFloatTypes, {"(T[3,17])", "(T[2,5,7]) {p=1, axis=1}"});
  add_composite<MeanVarianceNorm>(
      table, "(x - mean) / (sqrt(variance) + eps) over the axes",
      {.operands = "x: what is normalised",
       .attributes = "axes: over which mean and variance are taken; empty: all\n"
                     "eps: added to the root of the variance"},
      kFloatTypes, {"(T[3,17]) {axes=[1], eps=0.001}", "(T[2,3,5,7]) {axes=[0,2,3], eps=0.001}"});
}
}  // namespace ops

}  // namespace rlx
