#include "cli/verify_run.h"

#include <algorithm>

#include "base/fail.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "ir/op.h"

namespace rlx::cli {
namespace {

bool has_states(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& n) { return n.op->is(LeafKind::state); });
}

void show(const NodeCheck& c) {
  print(
      formatted("first node that differs from the reference: {} ({}) {}\n"
                "  {} elements are wrong; element {} is {:.9g} instead of {:.9g}, allowed error {:.3g}\n",
                c.node, c.op, c.type, c.wrong, c.index, c.got, c.want, c.allowed));
}

void show(const OutputCheck& c) {
  print(formatted("output {}: largest error against the reference from the inputs on: {:.3g}", c.output,
                  c.max_error));
  if (c.unclear == 1) print(" (1 element depends on rounding and was not judged)");
  if (c.unclear > 1) print(formatted(" ({} elements depend on rounding and were not judged)", c.unclear));
  print("\n");
}

// What nodes and outputs have in common.
template <class Check>
Json json_of(const Check& c) {
  Json out = Json::object({{"type", c.type}, {"wrong", c.wrong}, {"max_error", c.max_error}});
  if (c.wrong > 0)
    out.set("first_wrong",
            Json::object({{"index", c.index}, {"got", c.got}, {"want", c.want}, {"allowed", c.allowed}}));
  return out;
}

}  // namespace

Verification verify_run(Executable& exe, const RunSetup& setup, const NamedTensors& outputs, int64_t repeat) {
  Verification out;
  std::vector<NodeCheck> checks;
  {
    Progress progress("comparing nodes with the reference");
    const int64_t nodes = exe.graph()->size();
    checks = verify_nodes(exe, [&](int64_t done) { progress.update(done, nodes); });
  }
  const auto bad = std::ranges::find_if(checks, [](const NodeCheck& c) { return c.wrong > 0; });
  if (bad != checks.end()) out.bad = *bad;
  out.skipped = std::ranges::count_if(checks, &NodeCheck::skipped);
  out.agree = std::ranges::count_if(checks, [](const NodeCheck& c) { return !c.skipped && c.wrong == 0; });
  std::ranges::copy_if(checks, std::back_inserter(out.rounded),
                       [](const NodeCheck& c) { return c.rounding != Precision::exact; });
  out.outputs_skipped = repeat > 1 && has_states(setup.graph);
  if (out.outputs_skipped) return out;
  Precision rounding = Precision::exact;
  for (const NodeCheck& c : checks) rounding = std::max(rounding, c.rounding);
  Progress progress("computing the graph on the CPU, nodes");
  out.outputs = verify_outputs(
      setup.graph, setup.leaves.all(), outputs,
      [&](int64_t done, int64_t all) { progress.update(done, all); }, rounding);
  return out;
}

void show(const Verification& result) {
  if (result.bad) {
    show(*result.bad);
  } else {
    print(formatted("{} node{} with the reference", result.agree, result.agree == 1 ? " agrees" : "s agree"));
    if (result.skipped > 0)
      print(
          formatted(" ({} not checked: they read a state that has been overwritten since)", result.skipped));
    print("\n");
  }
  if (!result.rounded.empty()) {
    print("factors were rounded to f16 (largest error, and what is allowed there):\n");
    for (const NodeCheck& c : result.rounded)
      print(formatted("  {} ({}) {}  {:.3g} of {:.3g}{}\n", c.node, c.op, c.type, c.max_error, c.bound,
                      c.rounding == Precision::fast ? ", sums in f16" : ""));
  }
  if (result.outputs_skipped)
    print("outputs not checked from the inputs on: the states have changed with each repeat\n");
  for (const OutputCheck& c : result.outputs) show(c);
}

Json to_json(const Verification& result) {
  Json outputs = Json::array();
  for (const OutputCheck& c : result.outputs) {
    Json one = json_of(c);
    one.set("output", c.output);
    one.set("not_judged", c.unclear);
    outputs.add(one);
  }
  Json out = Json::object(
      {{"nodes_agree", result.agree}, {"nodes_not_checked", result.skipped}, {"outputs", outputs}});
  Json rounded = Json::array();
  for (const NodeCheck& c : result.rounded)
    rounded.add(Json::object({{"node", c.node},
                              {"op", c.op},
                              {"precision", rlx::to_string(c.rounding)},
                              {"max_error", c.max_error},
                              {"bound", c.bound}}));
  out.set("rounded_nodes", rounded);
  if (!result.bad) return out;
  Json node = json_of(*result.bad);
  node.set("node", result.bad->node);
  node.set("op", result.bad->op);
  out.set("first_wrong_node", node);
  return out;
}

void require_right(const Verification& result) {
  if (result.bad) fail(ErrorKind::internal, "the node '{}' is wrong on this device", result.bad->node);
  for (const OutputCheck& c : result.outputs) {
    if (c.wrong > 0) fail(ErrorKind::internal, "{}", rlx::to_text(c));
  }
}

}  // namespace rlx::cli
