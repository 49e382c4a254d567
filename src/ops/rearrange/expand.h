#pragma once

#include "ops/machinery/view_op.h"

namespace rlx {

// The input repeated along new leading axes and along axes of length 1; -1 keeps the input's dim.
struct Expand final : ViewOf<Expand> {
  static constexpr auto kName = "expand";
  Shape shape;

  void visit_attributes(AttributeVisitor& v) override { v("shape", shape); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  std::optional<View> view(const View& input, const Dims& out_dims) const override;
};

}  // namespace rlx
