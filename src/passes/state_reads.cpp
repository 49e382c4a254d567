#include "passes/state_reads.h"

#include "ir/op.h"

namespace rlx {

std::set<ValueId> overwritten(const Graph& graph) {
  std::set<ValueId> values;
  for (const Node& n : graph.nodes()) {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.op->overwrites(static_cast<int64_t>(i))) values.insert(n.inputs[i]);
    }
  }
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.op->has(Trait::view) && values.contains(n.inputs[0])) values.insert({id, 0});
  }
  return values;
}

}  // namespace rlx
