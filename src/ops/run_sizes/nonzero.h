#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

// The indices of the elements that are not zero, i64[rank, n] in row-major order, and their number, i32[]. As
// in ONNX, a scalar has no axes, so its indices are i64[0, n]. NaN is not zero; -0.0 is.
//
// n is the attribute `count`:
// - a symbol, which only the run knows (ir/run_sizes.h): the indices have their true size;
// - a number, which `count` becomes when the symbol is bound to its capacity: the indices are [rank, count],
//   with zeros after the last one, and those for which there is no room are left out;
// - not given: the same, with room for all elements.
// The second output always is the true number.
struct NonZero final : OpOf<NonZero> {
  static constexpr auto kName = "nonzero";
  std::optional<Dim> count;

  void visit_attributes(AttributeVisitor& v) override { v("count", count); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  std::optional<RunSize> run_size(std::span<const TensorType> inputs) const override;
};

}  // namespace rlx
