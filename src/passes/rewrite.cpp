#include "passes/rewrite.h"

#include <algorithm>

namespace rlx {

Rewriter::Rewriter(const Graph& source) : source_(source) {
  target_.name = source.name;
  for (const auto& [symbol, largest] : source.capacities()) target_.set_capacity(symbol, largest);
  size_t values = 0;
  first_.reserve(source.nodes().size());
  for (const Node& n : source.nodes()) {
    first_.push_back(values);
    values += n.outputs.size();
  }
  map_.resize(values);
}

ValueId Rewriter::copy(int32_t node) {
  std::vector<ValueId> inputs;
  for (ValueId v : source_.node(node).inputs) inputs.push_back(mapped(v));
  return replace(node, source_.node(node).op, std::move(inputs));
}

ValueId Rewriter::replace(int32_t node, OpPtr op, std::vector<ValueId> new_inputs) {
  const Node& old = source_.node(node);
  const ValueId fresh = target_.add(std::move(op), std::move(new_inputs), old.name);
  for (int32_t o = 0; o < static_cast<int32_t>(old.outputs.size()); ++o) map({node, o}, {fresh.node, o});
  return fresh;
}

Graph Rewriter::finish() {
  for (Graph::Output out : source_.outputs()) {
    out.value = mapped(out.value);
    target_.add_output(std::move(out));
  }
  return std::move(target_);
}

std::map<ValueId, std::vector<int32_t>> uses(const Graph& graph) {
  std::map<ValueId, std::vector<int32_t>> out;
  for (int32_t id = 0; id < graph.size(); ++id) {
    for (ValueId v : graph.node(id).inputs) {
      if (!v.is_absent()) out[v].push_back(id);
    }
  }
  for (const Graph::Output& o : graph.outputs()) out[o.value].push_back(-1);
  return out;
}

}  // namespace rlx
