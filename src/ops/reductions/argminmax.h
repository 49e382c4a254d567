// The index of the largest or smallest element along an axis.
#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

struct ArgMinMax final : TableOp {
  bool largest = true;
  int64_t axis = -1;
  bool keepdims = false;
  // The index is -1 where the axis has no elements, instead of an error.
  bool or_none = false;

  explicit ArgMinMax(bool l = true) : largest(l) {}
  std::string_view name() const override { return largest ? "argmax" : "argmin"; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<ArgMinMax>(*this); }
  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, -1);
    v("keepdims", keepdims, false);
    v("or_none", or_none, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
};

}  // namespace rlx
