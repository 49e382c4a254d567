// Minima in sizes that the capacities of symbols decide: x[:100] is all of x if x has at most 64 elements.
#include "ir/dim_choices.h"
#include "ir/subgraphs.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

using Capacities = std::map<std::string, int64_t>;

bool settle(Dim& dim, const Capacities& capacities) {
  if (dim.is_static()) return false;
  Dim settled = within_capacities(dim, capacities);
  if (settled == dim) return false;
  dim = std::move(settled);
  return true;
}

bool settle(Shape& shape, const Capacities& capacities) {
  bool changed = false;
  for (int64_t i = 0; i < shape.rank(); ++i) changed |= settle(shape[i], capacities);
  return changed;
}

OpPtr settled(const OpPtr& op, const Capacities& capacities) {
  std::set<std::string> symbols;
  collect_symbols(*op, symbols);
  if (symbols.empty()) return op;
  Attrs attrs = attributes(*op);
  bool changed = false;
  for (auto& [name, value] : attrs) {
    if (auto* dim = std::get_if<Dim>(&value)) changed |= settle(*dim, capacities);
    if (auto* shape = std::get_if<Shape>(&value)) changed |= settle(*shape, capacities);
    if (auto* type = std::get_if<TensorType>(&value)) changed |= settle(type->shape, capacities);
  }
  if (!changed) return op;
  const std::shared_ptr<Op> out = op->clone();
  set_attributes(*out, attrs);
  return out;
}

Graph settled(const Graph& graph, const Capacities& capacities) {
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter.mapped(v));
    const auto in_body = [&](const Graph& body) { return settled(body, capacities); };
    rewriter.replace(id, settled(map_subgraphs(n.op, in_body), capacities), std::move(inputs));
  }
  return rewriter.finish();
}

bool has_minima(const Graph& graph) {
  bool found = false;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node& n : g.nodes()) {
      for (const TensorType& t : n.outputs) {
        for (const Dim& d : t.shape) found = found || !minima(d).empty();
      }
    }
  });
  return found;
}

}  // namespace

Graph settle_minima(const Graph& graph) {
  if (graph.capacities().empty() || !has_minima(graph)) return graph;
  return settled(graph, graph.capacities());
}

}  // namespace rlx
