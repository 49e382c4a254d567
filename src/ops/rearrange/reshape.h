#pragma once

#include "ops/machinery/view_op.h"

namespace rlx {

// The same elements in row-major order under another shape; one dim may be -1 and is inferred.
struct Reshape final : ViewOf<Reshape> {
  static constexpr auto kName = "reshape";
  Shape shape;

  void visit_attributes(AttributeVisitor& v) override { v("shape", shape); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  std::optional<View> view(const View& input, const Dims& out_dims) const override;
};

}  // namespace rlx
