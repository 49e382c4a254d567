#include <unordered_map>

#include "base/hash.h"
#include "ir/subgraphs.h"
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

uint64_t hash_of(const Node& n) {
  Hash hash;
  hash.number(rlx::hash_of(*n.op));
  for (ValueId v : n.inputs)
    hash.number(static_cast<uint64_t>(v.node)).number(static_cast<uint64_t>(v.output));
  return hash.value();
}

}  // namespace

// Reads of a state on both sides of a write have different inputs: the state, and what the write returned.
Graph merge_common_subexpressions(const Graph& graph) {
  Rewriter rewriter(graph);
  std::unordered_map<uint64_t, std::vector<int32_t>> seen;  // nodes of the new graph by their hash
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    // Inputs, params and states are what they are named; each write to a state happens, and a body that reads
    // one may find other contents the second time.
    if (dynamic_cast<const Leaf*>(n.op.get()) || writes_state(n) || !states_in_bodies(*n.op).empty()) {
      rewriter.copy(id);
      continue;
    }
    Node probe{n.op, n.name, {}, n.outputs};
    for (ValueId v : n.inputs) probe.inputs.push_back(rewriter.mapped(v));
    std::vector<int32_t>& candidates = seen[hash_of(probe)];
    int32_t found = -1;
    for (int32_t c : candidates) {
      if (same_node(rewriter.target().node(c), probe)) found = c;
    }
    if (found < 0) {
      candidates.push_back(rewriter.replace(id, n.op, std::move(probe.inputs)).node);
      continue;
    }
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) rewriter.map({id, o}, {found, o});
  }
  return rewriter.finish();
}

}  // namespace rlx
