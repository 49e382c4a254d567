#pragma once

#include "ops/machinery/op_of.h"

namespace rlx {

// for (i = 0; i < trips && condition; ++i) condition, carried, slices = body(i, carried, captured)
//
// Inputs: trips and condition, each of which may be absent (no limit; true), then `carried` values, then
// captured ones. The body takes the iteration (i32), the carried and the captured values. It returns whether
// to go on, the carried values of the next iteration, and any number of slices. The results are the carried
// values after the last iteration and, for each slice, those of all iterations stacked along a new axis 0.
//
// How long that axis is must be in its type, and inference sees no values. So a loop with slices says it:
// - `exactly`: the loop makes this many iterations, which may depend on symbols of the caller. Trips and
//   condition are absent, and the body returns the constant true.
// - `count`: a symbol that only the run knows (ir/run_sizes.h), and that needs a capacity.
struct Loop final : OpOf<Loop> {
  static constexpr auto kName = "loop";
  GraphPtr body;
  int64_t carried = 0;
  std::optional<Dim> exactly;
  std::optional<Dim> count;

  void visit_attributes(AttributeVisitor& v) override {
    v("body", body);
    v("carried", carried, 0);
    v("exactly", exactly);
    v("count", count);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  bool has(Trait t) const override { return t == Trait::control_flow; }
  bool types_numbers(int64_t input) const override { return input >= 2; }
  // The inputs of a body are whole tensors.
  bool reads_view(int64_t, const View& view) const override {
    return view.is_contiguous() && view.offset == 0;
  }
  std::vector<Subgraph> subgraphs() const override { return {{"body", body}}; }
  std::optional<RunSize> run_size(std::span<const TensorType> inputs) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  // The first carried input of the node.
  static constexpr int64_t kFirstCarried = 2;
  // How many results are stacked slices; they come after the carried ones.
  int64_t stacked() const;
  // Whether the body goes on in every iteration: its first output is a constant other than zero.
  bool always_continues() const;
};

// The value of a constant that is one element, where the graph has it.
std::optional<int64_t> constant_integer(const Graph& graph, ValueId value);

}  // namespace rlx
