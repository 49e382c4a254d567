// softmax and log_softmax along one axis.
#pragma once

#include "kernels/dispatch.h"
#include "ops/machinery/op_of.h"

namespace rlx {

struct Softmax final : TableOp {
  bool log = false;
  int64_t axis = -1;

  explicit Softmax(bool l = false) : log(l) {}
  std::string_view name() const override { return log ? "log_softmax" : "softmax"; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<Softmax>(*this); }
  bool has(Trait t) const override { return t == Trait::rounds_once; }
  void visit_attributes(AttributeVisitor& v) override { v("axis", axis, -1); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

// Emits y = softmax or log_softmax of x along the axis, which is not negative.
void lower_softmax(Lowering& l, bool log, int64_t axis, const Operand& x, const Operand& y);

}  // namespace rlx
