#pragma once

#include "ir/op.h"

namespace rlx {

// A sub-graph applied to the inputs, which stand for its inputs in their order. It has no kernel:
// inline_calls puts its nodes in the place of the call.
struct Call final : OpOf<Call> {
  static constexpr auto kName = "call";
  GraphPtr body;

  void visit_attributes(AttributeVisitor& v) override { v("body", body); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::vector<GraphPtr> subgraphs() const override { return {body}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  // The nodes of the body that the call's inputs stand for.
  std::vector<int32_t> parameters() const;
};

}  // namespace rlx
