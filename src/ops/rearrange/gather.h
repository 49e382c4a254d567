#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

// y[o.., j.., k..] = table[o.., indices[j..], k..]: the axis of the table is replaced by the axes of the
// indices. Negative indices count from the end; what is still outside is clamped to the first or last
// entry.
struct Gather final : OpOf<Gather> {
  static constexpr auto kName = "gather";
  int64_t axis = 0;

  void visit_attributes(AttributeVisitor& v) override { v("axis", axis, 0); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  bool reads_encoded(int64_t input, DType, const View&) const override { return input == 0; }
  void lower(Lowering& l) const override;
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == 1 ? values_between(0, inputs[0].shape[normal_axis(axis, inputs[0].shape.rank())] - 1)
                      : std::nullopt;
  }
};

}  // namespace rlx
