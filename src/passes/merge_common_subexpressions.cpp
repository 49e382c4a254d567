#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

bool same_node(const Node& a, const Node& b) {
  if (a.inputs != b.inputs || a.outputs != b.outputs) return false;
  const auto* x = op_cast<Constant>(*a.op);
  const auto* y = op_cast<Constant>(*b.op);
  if (x || y) return x && y && x->value == y->value;
  return same(*a.op, *b.op);
}

}  // namespace

Graph merge_common_subexpressions(const Graph& graph) {
  Rewriter rewriter(graph);
  // Candidates by op name and inputs; few share a key.
  std::map<std::pair<std::string, std::vector<ValueId>>, std::vector<int32_t>> seen;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter.mapped(v));
    // Inputs, params and states are what they are named; each write to a state happens.
    const bool mergeable =
        !dynamic_cast<const Leaf*>(n.op.get()) && (n.inputs.empty() || !n.op->overwrites(0));
    auto& candidates = seen[{std::string(n.op->name()), inputs}];
    const Node probe{n.op, n.name, inputs, n.outputs};
    int32_t found = -1;
    for (int32_t c : candidates) {
      if (mergeable && same_node(rewriter.target().node(c), probe)) found = c;
    }
    if (found >= 0) {
      for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) rewriter.map({id, o}, {found, o});
      continue;
    }
    candidates.push_back(rewriter.replace(id, n.op, std::move(inputs)).node);
  }
  return rewriter.finish();
}

}  // namespace rlx
