// Batch norm with known statistics: a scale and a shift for each channel.
#pragma once

#include "ops/machinery/op_of.h"
#include "rlx/value.h"

namespace rlx {

// batch_norm(x, mean, variance, [gamma], [beta]): (x - mean) / sqrt(variance + eps) * gamma + beta. It
// becomes element-wise ops, which are fused with what is around them; fold_batch_norm puts it into a product
// with a weight in front of it.
struct BatchNorm final : OpOf<BatchNorm> {
  static constexpr auto kName = "batch_norm";
  double eps = 1e-5;
  int64_t axis = 1;

  void visit_attributes(AttributeVisitor& v) override {
    v("eps", eps, 1e-5);
    v("axis", axis, 1);
  }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == 2 ? std::optional(ValueRange{.low = 0, .high = 1}) : std::nullopt;  // the variance
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  // What x is multiplied by, and what is then added: f32[channels].
  struct Terms {
    Value factor, shift;
  };
  Terms terms(const ExpandArgs& in) const;
};

// v [n] as an axis of a tensor of that rank: its other axes have length 1.
Value along_axis(Value v, int64_t axis, int64_t rank);

}  // namespace rlx
