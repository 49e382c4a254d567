// Looking into a run: where a NaN comes from, what each node holds, where the time goes, where the device
// departs from the reference.
//
//   auto exe = rlx::compile(graph, device, {.keep_intermediates = true});
//   exe.run(inputs);
//   if (auto bad = rlx::find_first_nan(exe)) std::cerr << rlx::to_text(*bad);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlx/executable.h"
#include "rlx/export.h"
#include "rlx/precision.h"

RLX_EXPORT_BEGIN
namespace rlx {

// Numbers that describe a tensor. NaNs and infinities are counted and left out of the others.
struct TensorSummary {
  int64_t elements = 0;
  int64_t nans = 0;
  int64_t infinities = 0;
  int64_t non_zeros = 0;  // including NaNs and infinities
  double min = 0;
  double max = 0;
  double mean = 0;
  double max_abs = 0;
};
TensorSummary summarize(const Tensor& tensor);  // c64: of the absolute values
std::string to_text(const TensorSummary& summary);

struct NodeSummary {
  std::string node;
  std::string op;
  std::string type;  // f32[2, 3]
  TensorSummary value;
};

// The first node, in the order of the graph, whose value has a NaN or an infinity. Constants and masks may
// hold infinities on purpose: a leaf counts only for its NaNs.
struct BadNode {
  NodeSummary node;
  std::vector<NodeSummary> inputs;
};
std::string to_text(const BadNode& bad);

// All of these need CompileOptions::keep_intermediates and an earlier run.
std::optional<BadNode> find_first_nan(Executable& exe);
// The nodes that compute something, at most `limit` of them (all when it is less than 0).
std::vector<NodeSummary> summarize_nodes(Executable& exe, int64_t limit = -1);
std::string to_text(std::span<const NodeSummary> nodes);

// One node of a run, computed again by the CPU reference from the values that the device had for its inputs:
// an error is found at the node that makes it, not at those that inherit it.
struct NodeCheck {
  std::string node;
  std::string op;
  std::string type;
  bool skipped = false;  // its inputs are states that have been overwritten since
  int64_t wrong = 0;     // elements beyond the op's tolerance and beyond what is measured as in OutputCheck
  double max_error = 0;
  // The first wrong element.
  int64_t index = -1;
  double got = 0, want = 0, allowed = 0;
  // What its products rounded to; unless that is `exact`, `bound` is what is allowed for its element with the
  // largest error.
  Precision rounding = Precision::exact;
  double bound = 0;
};
// Needs CompileOptions::keep_intermediates, all symbols bound, and an earlier run. `done` is called after
// each node.
std::vector<NodeCheck> verify_nodes(Executable& exe,
                                    const std::function<void(int64_t nodes_done)>& done = {});

// One output of a run against the reference of the graph as it was written, from the inputs on. This finds
// what verify_nodes cannot: an optimisation that changes the meaning of the graph.
//
// How far apart they may be is measured: the reference runs again a few times, with everything it computes
// moved at random within what the ops promise and the types hold. Allowed is four times the sum of how far
// the element moved and how far the output moved as a whole, plus the rounding of its type. Integers must be
// equal, except those that moved too (an argmax among equals).
struct OutputCheck {
  std::string output;
  std::string type;
  int64_t wrong = 0;  // elements beyond what is allowed, NaN instead of a number or a number instead of NaN
  int64_t unclear =
      0;  // not judged: rounding alone decides whether they are finite, or which integer they are
  double max_error = 0;
  // The first wrong element; -1 when the shape of the output differs from the reference's.
  int64_t index = -1;
  double got = 0, want = 0, allowed = 0;
};
// `graph` has no symbols; `leaves` holds its inputs, params and states (before the run; zeros if not given)
// by name, `outputs` what the run returned, with this precision. `done` is called after each node of each of
// the runs.
std::vector<OutputCheck> verify_outputs(
    const Graph& graph, const NamedTensors& leaves, const NamedTensors& outputs,
    const std::function<void(int64_t nodes_done, int64_t nodes)>& done = {},
    Precision precision = Precision::exact);
// "output 'y' is wrong: element 3 of f32[4] is 0.47 instead of 10, ...", or that it agrees.
std::string to_text(const OutputCheck& check);

// The number of dispatches, the memory, how often each kernel is used.
std::string schedule_summary(const PlanReport& plan);

// What Executable::profile measured, summed by kernel, the most expensive first. With the plan that ran, also
// the arithmetic and the bytes per second.
std::string profile_table(std::span<const DispatchReport> dispatches, const PlanReport* plan = nullptr);
// For each of the dispatches its share, by time, of the operations of its node: what StepReport::node_flops
// says, however often the dispatches of the node were made.
std::vector<double> dispatch_flops(std::span<const DispatchReport> dispatches, const PlanReport& plan);
// The same as a file for chrome://tracing or ui.perfetto.dev.
std::string trace_json(std::span<const DispatchReport> dispatches, const std::string& title);

}  // namespace rlx
RLX_EXPORT_END
