#include <algorithm>

#include "ir/run_sizes.h"
#include "ir/subgraphs.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {

Graph remove_dead_code(Graph graph) {
  std::vector<bool> live(static_cast<size_t>(graph.size()), false);
  for (const Graph::Output& out : graph.outputs()) live[static_cast<size_t>(out.value.node)] = true;
  const std::map<std::string, RunSymbol> sizes = run_symbols(graph);
  for (int32_t id = graph.size() - 1; id >= 0; --id) {
    const Node& n = graph.node(id);
    // Inputs stay so that callers can still name them, and a write to a state is seen by the next run.
    if (n.op->is(LeafKind::input) || writes_state(n)) live[static_cast<size_t>(id)] = true;
    if (!live[static_cast<size_t>(id)]) continue;
    for (ValueId v : n.inputs) {
      if (!v.is_absent()) live[static_cast<size_t>(v.node)] = true;
    }
    if (sizes.empty()) continue;
    // A shape may need a size without reading any value of the node that determines it.
    for (const std::string& name : symbols_of(n)) {
      const auto size = sizes.find(name);
      if (size != sizes.end() && size->second.graph == &graph)
        live[static_cast<size_t>(size->second.node)] = true;
    }
  }
  if (std::ranges::count(live, false) == 0) return graph;
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    if (live[static_cast<size_t>(id)]) rewriter.copy(id);
  }
  return rewriter.finish();
}

}  // namespace rlx
