// Several element-wise expressions in one dispatch.
#pragma once

#include <string>
#include <vector>

#include "ops/elementwise/expr.h"
#include "ops/machinery/op_of.h"

namespace rlx {

// Output e is expression e of its own inputs, counts[e] of them in order; all outputs have the same shape.
struct BatchElementwise final : OpOf<BatchElementwise> {
  static constexpr auto kName = "batch_elementwise";
  std::vector<std::string> exprs;  // as in fused_elementwise
  std::vector<int64_t> counts;

  void visit_attributes(AttributeVisitor& v) override {
    v("exprs", exprs);
    v("counts", counts);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

}  // namespace rlx
