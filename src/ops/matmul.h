// Matrix products with an optional scalar expression on the result.
#pragma once

#include "ir/op.h"
#include "kernels/dispatch.h"
#include "ops/expr.h"

namespace rlx {

// matmul(a, b, extra...): NumPy's matmul, then `epilogue` with $0 the product and $1.. the extra inputs,
// which broadcast to the product's shape. Strided operands (transposes, slices) are read in place.
struct MatMul final : OpOf<MatMul> {
  static constexpr auto kName = "matmul";
  ExprAttr epilogue;

  void visit_attributes(AttributeVisitor& v) override { v("epilogue", epilogue, {}); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  // The epilogue for a product and extra inputs of these types; it has no steps if there is none.
  Expr expr(DType product, std::span<const DType> extra) const;
};

// y = a x b for operands [batch..., m, k], [batch..., k, n] (batches already broadcast) and a contiguous y.
void lower_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y);

// The plain product, for references: c[m, n] += a[m, k] * b[k, n], row-major, blocked and threaded.
void multiply_reference(const double* a, const double* b, double* c, int64_t m, int64_t n, int64_t k);

}  // namespace rlx
