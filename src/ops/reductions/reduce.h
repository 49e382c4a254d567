// Sum, mean, maximum, minimum and product over any set of axes.
#pragma once

#include "kernels/lowering.h"
#include "ops/elementwise/expr.h"
#include "ops/machinery/op_of.h"
#include "rlx/value.h"

namespace rlx {

enum class ReduceKind { sum, mean, max, min, prod };

// For ops over some axes: all of an input of that rank if none are given, ascending and not negative.
std::vector<int64_t> reduced_axes(const std::vector<int64_t>& axes, int64_t rank);
// Input 0 without those axes, or with 1 in their place; an error if one does not exist or is named twice.
Shape reduced_shape(const InferArgs& in, const std::vector<int64_t>& axes, bool keepdims);

struct Reduce final : TableOp {
  ReduceKind kind = ReduceKind::sum;
  std::vector<int64_t> axes;  // all when empty
  bool keepdims = false;      // reduced axes stay, with length 1

  explicit Reduce(ReduceKind k = ReduceKind::sum) : kind(k) {}
  std::string_view name() const override;
  std::shared_ptr<Op> clone() const override { return std::make_shared<Reduce>(*this); }
  bool has(Trait t) const override { return t == Trait::rounds_once; }
  void visit_attributes(AttributeVisitor& v) override {
    v("axes", axes, {});
    v("keepdims", keepdims, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  // The reduced axes of an input of that rank, ascending and not negative.
  std::vector<int64_t> reduced(int64_t rank) const { return reduced_axes(axes, rank); }
};

std::string_view reduce_name(ReduceKind kind);

// y = the reduction of x over the axes `inner` (ascending); y has the other axes of x, with or without those
// of length 1. Sums of floats are f32 inside, whatever x and y are.
void lower_reduce(Lowering& l, ReduceKind kind, const Operand& x, const std::vector<int64_t>& inner,
                  const Operand& y);

// The same of expr(inputs), a float, each input broadcast to `dims`.
void lower_mapped_reduce(Lowering& l, ReduceKind kind, const Expr& expr, const OperandList& inputs,
                         const Dims& dims, const std::vector<int64_t>& inner, const Operand& y);

}  // namespace rlx
