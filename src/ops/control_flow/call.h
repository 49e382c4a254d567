#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

// A sub-graph applied to the inputs, which replace the sub-graph's own inputs in order. It has no kernel: it
// expands into the nodes of the body.
struct Call final : OpOf<Call> {
  static constexpr auto kName = "call";
  GraphPtr body;

  void visit_attributes(AttributeVisitor& v) override { v("body", body); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::vector<Subgraph> subgraphs() const override { return {{"body", body}}; }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

}  // namespace rlx
