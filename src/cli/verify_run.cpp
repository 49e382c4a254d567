#include "cli/verify_run.h"

#include <algorithm>

#include "base/fail.h"
#include "cli/text.h"
#include "ir/op.h"
#include "rlx/diagnostics.h"

namespace rlx::cli {
namespace {

void print_check(const NodeCheck& c) {
  print(
      formatted("first node that differs from the reference: {} ({}) {}\n"
                "  {} elements are wrong; element {} is {:.9g} instead of {:.9g}, allowed error {:.3g}\n",
                c.node, c.op, c.type, c.wrong, c.index, c.got, c.want, c.allowed));
}

// The outputs of the whole graph, from the inputs on.
std::vector<OutputCheck> check_outputs(const ReadyModel& model, const NamedTensors& outputs, int64_t repeat) {
  const auto is_state = [](const Node& n) { return n.op->is(LeafKind::state); };
  if (repeat > 1 && std::ranges::any_of(model.graph.nodes(), is_state)) {
    print("outputs not checked from the inputs on: the states have changed with each repeat\n");
    return {};
  }
  Progress progress("computing the graph on the CPU");
  std::vector<OutputCheck> checks =
      verify_outputs(model.graph, model.leaves.all(), outputs,
                     [&](int64_t done, int64_t all) { progress.update(done, all); });
  for (const OutputCheck& c : checks) {
    print(formatted("output {}: largest error against the reference from the inputs on: {:.3g}", c.output,
                    c.max_error));
    if (c.unclear == 1) print(" (1 element depends on rounding and was not judged)");
    if (c.unclear > 1) print(formatted(" ({} elements depend on rounding and were not judged)", c.unclear));
    print("\n");
  }
  return checks;
}

}  // namespace

void verify_run(Executable& exe, const ReadyModel& model, const NamedTensors& outputs, int64_t repeat) {
  std::vector<NodeCheck> checks;
  {
    Progress progress("comparing nodes with the reference");
    const int64_t nodes = exe.graph()->size();
    checks = verify_nodes(exe, [&](int64_t done) { progress.update(done, nodes); });
  }
  const auto bad = std::ranges::find_if(checks, [](const NodeCheck& c) { return c.wrong > 0; });
  const auto skipped = std::ranges::count_if(checks, &NodeCheck::skipped);
  if (bad != checks.end()) {
    print_check(*bad);
  } else {
    const auto agree = std::ssize(checks) - skipped;
    print(formatted("{} node{} with the reference", agree, agree == 1 ? " agrees" : "s agree"));
    if (skipped)
      print(formatted(" ({} not checked: they read a state that has been overwritten since)", skipped));
    print("\n");
  }
  const std::vector<OutputCheck> outputs_checked = check_outputs(model, outputs, repeat);
  if (bad != checks.end()) fail(ErrorKind::internal, "the node '{}' is wrong on this device", bad->node);
  for (const OutputCheck& c : outputs_checked) {
    if (c.wrong > 0) fail(ErrorKind::internal, "{}", rlx::print(c));
  }
}

}  // namespace rlx::cli
