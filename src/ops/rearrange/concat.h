#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

// The inputs one after the other along an axis.
struct Concat final : OpOf<Concat> {
  static constexpr auto kName = "concat";
  int64_t axis = 0;

  void visit_attributes(AttributeVisitor& v) override { v("axis", axis); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
};

}  // namespace rlx
