#pragma once

#include "ops/machinery/view_op.h"

namespace rlx {

// Axis i of the result is axis perm[i] of the input; without perm, the axes in reverse.
struct Transpose final : ViewOf<Transpose> {
  static constexpr auto kName = "transpose";
  std::vector<int64_t> perm;

  void visit_attributes(AttributeVisitor& v) override { v("perm", perm, {}); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  std::optional<View> view(const View& input, const Dims& out_dims) const override;
  // perm written out for an input of that rank, all entries in [0, rank).
  std::vector<int64_t> order(int64_t rank) const;
};

}  // namespace rlx
