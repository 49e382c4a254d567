#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

// One of two sub-graphs applied to the inputs after the condition. Only that one is executed.
struct If final : OpOf<If> {
  static constexpr auto kName = "if";
  GraphPtr then_body;
  GraphPtr else_body;

  void visit_attributes(AttributeVisitor& v) override {
    v("then", then_body);
    v("else", else_body);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  bool has(Trait t) const override { return t == Trait::control_flow; }
  bool types_numbers(int64_t input) const override { return input != 0; }
  // The inputs of a body are whole tensors.
  bool reads_view(int64_t, const View& view) const override {
    return view.is_contiguous() && view.offset == 0;
  }
  std::vector<Subgraph> subgraphs() const override { return {{"then", then_body}, {"else", else_body}}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

}  // namespace rlx
