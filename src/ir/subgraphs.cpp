#include "ir/subgraphs.h"

#include <algorithm>

#include "base/format.h"
#include "rlx/graph.h"

namespace rlx {

void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& visit) {
  visit(graph);
  for (const Node& n : graph.nodes()) {
    for (const Subgraph& sub : n.op->subgraphs()) for_each_graph(*sub.graph, visit);
  }
}

std::string prefix_within(std::string_view node, const Op& op, size_t subgraph) {
  const std::vector<Subgraph> all = op.subgraphs();
  return all.size() == 1 ? formatted("{}/", node) : formatted("{}/{}/", node, all[subgraph].name);
}

std::vector<int32_t> body_inputs(const Graph& body) {
  std::vector<int32_t> nodes;
  for (int32_t id = 0; id < body.size(); ++id) {
    if (body.node(id).op->is(LeafKind::input)) nodes.push_back(id);
  }
  return nodes;
}

namespace {

class SubgraphMapper final : public AttributeVisitor {
 public:
  explicit SubgraphMapper(const std::function<Graph(const Graph&)>& change) : change_(change) {}

 private:
  void visit(std::string_view, AttrValue& value, const std::optional<AttrValue>&, AttrKind) override {
    if (auto* graph = std::get_if<GraphPtr>(&value); graph && *graph)
      *graph = std::make_shared<const Graph>(change_(**graph));
  }
  const std::function<Graph(const Graph&)>& change_;
};

}  // namespace

OpPtr map_subgraphs(const OpPtr& op, const std::function<Graph(const Graph&)>& change) {
  if (op->subgraphs().empty()) return op;
  const std::shared_ptr<Op> changed = op->clone();
  SubgraphMapper mapper(change);
  changed->visit_attributes(mapper);
  return changed;
}

void merge_capacities(Graph& target, const Graph& from) {
  for (const auto& [symbol, largest] : from.capacities()) {
    const auto known = target.capacities().find(symbol);
    target.set_capacity(symbol,
                        known == target.capacities().end() ? largest : std::min(largest, known->second));
  }
}

std::vector<ValueId> inline_body(Graph& target, const Graph& body, std::map<ValueId, ValueId> map) {
  merge_capacities(target, body);
  for (int32_t id = 0; id < body.size(); ++id) {
    if (map.contains({id, 0})) continue;
    const Node& n = body.node(id);
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(v.is_absent() ? v : map.at(v));
    const ValueId fresh = target.add(n.op, std::move(inputs), n.name);
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) map[{id, o}] = {fresh.node, o};
  }
  std::vector<ValueId> outputs;
  for (const Graph::Output& o : body.outputs()) outputs.push_back(map.at(o.value));
  return outputs;
}

const std::string& state_name(const Graph& graph, ValueId version) {
  const Node* n = &graph.producer(version);
  while (!n->op->is_leaf()) {
    check(n->op->overwrites(version.output), "a version of a state is the state or a write");
    version = n->inputs[static_cast<size_t>(version.output)];
    n = &graph.producer(version);
  }
  return n->name;
}

std::map<std::string, bool> states_in_bodies(const Op& op) {
  std::map<std::string, bool> states;
  for (const Subgraph& sub : op.subgraphs()) {
    for_each_graph(*sub.graph, [&](const Graph& g) {
      for (const Node& n : g.nodes()) {
        if (n.op->is(LeafKind::state)) states.emplace(n.name, false);
        for (size_t i = 0; i < n.inputs.size(); ++i) {
          if (n.op->overwrites(static_cast<int64_t>(i))) states[state_name(g, n.inputs[i])] = true;
        }
      }
    });
  }
  return states;
}

bool writes_state(const Node& node) {
  if (!node.inputs.empty() && node.op->overwrites(0)) return true;
  return std::ranges::any_of(states_in_bodies(*node.op), [](const auto& state) { return state.second; });
}

}  // namespace rlx
