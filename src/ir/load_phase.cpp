#include "ir/load_phase.h"

#include <algorithm>

#include "ir/op.h"
#include "ir/run_sizes.h"
#include "ir/states.h"

namespace rlx {

std::vector<bool> in_load_phase(const Graph& graph) {
  const std::set<int32_t> written = written_params(graph);
  std::vector<bool> known;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const auto loaded = [&](ValueId v) { return v.is_absent() || known[static_cast<size_t>(v.node)]; };
    const bool is_weight =
        (n.op->is(LeafKind::param) && !written.contains(id)) || n.op->is(LeafKind::constant);
    // Loads make no decisions: branches and loops, which may also change states, wait for the run.
    const bool derived =
        !n.inputs.empty() && std::ranges::all_of(n.inputs, loaded) && !n.op->has(Trait::control_flow);
    known.push_back((is_weight || derived) && symbols_of(n).empty());
  }
  return known;
}

}  // namespace rlx
