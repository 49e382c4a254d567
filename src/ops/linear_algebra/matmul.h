// Matrix products with an optional scalar expression on the result.
#pragma once

#include "kernels/dispatch.h"
#include "ops/machinery/op_of.h"
#include "ops/products/product_op.h"

namespace rlx {

// matmul(a, b, extra...): NumPy's matmul, then `epilogue` with $0 the product and $1.. the extra inputs,
// which broadcast to the product's shape. Strided operands (transposes, slices) are read in place.
// Products of 8-bit integers are exact in i32.
struct MatMul final : ProductOpOf<MatMul> {
  static constexpr auto kName = "matmul";

  std::vector<int64_t> splits;  // the columns of several outputs; empty: one output with all of them
  int64_t panels = 0;  // how many columns of b lie together: b is [n / panels, k, panels]; 0: [.., k, n]

  void visit_attributes(AttributeVisitor& v) override {
    v("epilogue", epilogue, {});
    v("splits", splits, {});
    v("panels", panels, int64_t{0});
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  bool reads_encoded(int64_t input, DType encoding, const View& view) const override;

  void reference_splits(RefContext& r) const;

  int64_t own_inputs() const override { return 2; }
  DType product_type(std::span<const DType> inputs) const override;
  double terms(std::span<const TensorType> inputs) const override;
  std::shared_ptr<Op> with_epilogue(ExprAttr other) const override;
  std::shared_ptr<Op> with_splits(std::vector<int64_t> sizes) const override;
  std::shared_ptr<Op> with_panels(std::span<const TensorType> inputs, int64_t width) const override;
  bool is_plain_matmul() const override { return epilogue.empty() && splits.empty() && panels == 0; }
  std::optional<Join> join(std::span<const TensorType> inputs) const override;
  std::optional<Order> weight_order(std::span<const TensorType> inputs, const Order& lies) const override;
};

// y = a x b for operands [batch..., m, k], [batch..., k, n] (batches already broadcast) and a contiguous y.
void lower_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y);

// The plain product, for references: c[m, n] += a[m, k] * b[k, n], row-major, blocked and threaded.
void multiply_reference(const double* a, const double* b, double* c, int64_t m, int64_t n, int64_t k);

}  // namespace rlx
