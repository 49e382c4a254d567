// Running sums, products and extremes along an axis.
#pragma once

#include "kernels/lowering.h"
#include "ops/machinery/op_of.h"

namespace rlx {

enum class ScanKind { sum, prod, max, min };

struct Cumulative final : TableOp {
  ScanKind kind = ScanKind::sum;
  int64_t axis = -1;
  bool exclusive = false;
  bool reverse = false;

  explicit Cumulative(ScanKind k = ScanKind::sum) : kind(k) {}
  std::string_view name() const override;
  std::shared_ptr<Op> clone() const override { return std::make_shared<Cumulative>(*this); }
  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, -1);
    v("exclusive", exclusive, false);
    v("reverse", reverse, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

// y[j] = x[0] to x[j] of each row, merged; before x[j] if exclusive. The operands have rows
// (ops/machinery/rows.h) of equal count and length; all types of x and y are read as the same accumulator.
struct ScanProblem {
  ScanKind kind = ScanKind::sum;
  Operand x;
  Operand y;
  bool exclusive = false;
};
void lower_scan(Lowering& l, const ScanProblem& problem);

}  // namespace rlx
