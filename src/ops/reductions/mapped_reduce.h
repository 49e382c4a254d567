// A reduction of an expression of its inputs, which is computed as they are read: what the passes make of an
// element-wise region that only a reduction reads.
#pragma once

#include "ops/elementwise/expr.h"
#include "ops/reductions/reduce.h"

namespace rlx {

struct MappedReduce final : OpOf<MappedReduce> {
  static constexpr auto kName = "mapped_reduce";
  ReduceKind kind = ReduceKind::sum;
  ExprAttr expression;
  std::vector<int64_t> axes;  // all when empty
  bool keepdims = false;

  void visit_attributes(AttributeVisitor& v) override {
    v.choice("kind", kind, {"sum", "mean", "max", "min", "prod"});
    v("expr", expression);
    v("axes", axes, {});
    v("keepdims", keepdims, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

 private:
  Expr expr(const std::vector<DType>& inputs) const;
  Reduce reduction() const;
};

}  // namespace rlx
