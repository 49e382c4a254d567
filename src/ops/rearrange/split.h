#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

// Consecutive slices along an axis, each with its own memory; slice reads a slice in place.
struct Split final : OpOf<Split> {
  static constexpr auto kName = "split";
  int64_t axis = 0;
  std::vector<int64_t> sizes;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis);
    v("sizes", sizes);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
};

}  // namespace rlx
