#include "ir/load_phase.h"

#include <algorithm>
#include <set>
#include <string>

#include "ir/op.h"

namespace rlx {

std::vector<bool> in_load_phase(const Graph& graph) {
  const auto has_symbols = [](const Node& n) {
    std::set<std::string> symbols;
    collect_symbols(*n.op, symbols);
    return !symbols.empty() ||
           !std::ranges::all_of(n.outputs, [](const TensorType& t) { return t.shape.is_static(); });
  };
  std::vector<bool> known;
  for (const Node& n : graph.nodes()) {
    const auto loaded = [&](ValueId v) { return v.is_absent() || known[static_cast<size_t>(v.node)]; };
    const bool is_weight = n.op->is(LeafKind::param) || n.op->is(LeafKind::constant);
    known.push_back((is_weight || (!n.inputs.empty() && std::ranges::all_of(n.inputs, loaded))) &&
                    !has_symbols(n));
  }
  return known;
}

}  // namespace rlx
