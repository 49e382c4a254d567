#include "ir/states.h"

#include <functional>
#include <map>
#include <queue>

#include "ir/op.h"
#include "ir/run_sizes.h"
#include "ir/subgraphs.h"

namespace rlx {

StateVersions::StateVersions(const Graph& graph)
    : version_(static_cast<size_t>(graph.size()), -1), writer_(static_cast<size_t>(graph.size()), -1) {
  std::map<std::string, Newest> newest;  // by the name of the state
  for (int32_t id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op->is(LeafKind::state)) newest[graph.node(id).name] = {id, true};
  }
  std::vector<std::string> state(version_.size());  // of each node that makes a version
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.op->is(LeafKind::state) || (!n.inputs.empty() && n.op->overwrites(0))) {
      version_[static_cast<size_t>(id)] = id;
    } else if (n.op->has(Trait::view)) {
      version_[static_cast<size_t>(id)] = version(n.inputs[0]);
    }
    if (n.op->is(LeafKind::state)) state[static_cast<size_t>(id)] = n.name;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (!n.op->overwrites(static_cast<int64_t>(i))) continue;
      const int32_t old = version(n.inputs[i]);
      if (old != n.inputs[i].node) {
        fail("node '{}': input {} is '{}', which is not a state", n.name, i,
             graph.producer(n.inputs[i]).name);
      }
      writer_[static_cast<size_t>(old)] = id;
      state[static_cast<size_t>(id)] = state[static_cast<size_t>(old)];
      overwrite(newest[state[static_cast<size_t>(id)]], id, true);
    }
    for (const auto& [name, writes] : states_in_bodies(*n.op)) use_in_body(newest[name], id, writes);
  }
}

void StateVersions::overwrite(Newest& newest, int32_t writer, bool is_value) {
  for (const int32_t reader : newest.body_readers) body_order_.emplace_back(reader, writer);
  newest = {writer, is_value};
  any_overwritten_ = true;
}

void StateVersions::use_in_body(Newest& newest, int32_t node, bool writes) {
  if (newest.made_by >= 0) body_order_.emplace_back(newest.made_by, node);
  if (!writes) {
    newest.body_readers.push_back(node);
    return;
  }
  if (newest.is_value) writer_[static_cast<size_t>(newest.made_by)] = node;
  overwrite(newest, node, false);
}

int32_t StateVersions::version(ValueId v) const {
  return !v.is_absent() && v.output == 0 ? version_[static_cast<size_t>(v.node)] : -1;
}

int32_t StateVersions::writer(ValueId v) const {
  const int32_t made_by = version(v);
  return made_by < 0 ? -1 : writer_[static_cast<size_t>(made_by)];
}

namespace {

// Kahn's order, the smallest node first. It ends early where nodes wait for each other.
class Scheduler {
 public:
  explicit Scheduler(const Graph& graph)
      : states_(graph), later_(static_cast<size_t>(graph.size())), waits_(later_.size(), 0) {
    for (int32_t id = 0; id < graph.size(); ++id) {
      for (ValueId v : graph.node(id).inputs) {
        if (v.is_absent()) continue;
        edge(v.node, id);
        if (const int32_t writer = states_.writer(v); writer >= 0) edge(id, writer);
      }
    }
    for (const auto& [first, then] : states_.body_order()) edge(first, then);
    order_run_symbols(graph);
  }

  std::vector<int32_t> run() {
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
    for (size_t id = 0; id < waits_.size(); ++id) {
      if (waits_[id] == 0) ready.push(static_cast<int32_t>(id));
    }
    std::vector<int32_t> order;
    while (!ready.empty()) {
      const int32_t id = ready.top();
      ready.pop();
      order.push_back(id);
      for (int32_t next : later_[static_cast<size_t>(id)]) {
        if (--waits_[static_cast<size_t>(next)] == 0) ready.push(next);
      }
    }
    return order;
  }

  bool still_waits(int32_t id) const { return waits_[static_cast<size_t>(id)] > 0; }
  const StateVersions& states() const { return states_; }

 private:
  // A shape may name a symbol without reading a value of the node that determines it.
  void order_run_symbols(const Graph& graph) {
    const std::map<std::string, RunSymbol> symbols = run_symbols(graph);
    if (symbols.empty()) return;
    for (int32_t id = 0; id < graph.size(); ++id) {
      for (const std::string& name : symbols_of(graph.node(id))) {
        const auto symbol = symbols.find(name);
        if (symbol != symbols.end() && symbol->second.graph == &graph) edge(symbol->second.node, id);
      }
    }
  }

  void edge(int32_t first, int32_t then) {
    if (first == then) return;
    later_[static_cast<size_t>(first)].push_back(then);
    ++waits_[static_cast<size_t>(then)];
  }

  StateVersions states_;
  std::vector<std::vector<int32_t>> later_;  // edges: node -> nodes that must come later
  std::vector<int32_t> waits_;               // how many edges a node still waits for
};

}  // namespace

std::optional<std::vector<int32_t>> find_schedule(const Graph& graph) {
  std::vector<int32_t> order = Scheduler(graph).run();
  if (order.size() < graph.nodes().size()) return std::nullopt;
  return order;
}

std::vector<int32_t> schedule(const Graph& graph) {
  Scheduler scheduler(graph);
  std::vector<int32_t> order = scheduler.run();
  if (order.size() == graph.nodes().size()) return order;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const int32_t writer = scheduler.states().writer({id, 0});
    if (scheduler.states().version({id, 0}) != id || writer < 0 || !scheduler.still_waits(writer)) continue;
    fail("node '{}' overwrites the state '{}', whose old contents are needed after it; copy them first",
         graph.node(writer).name, graph.node(id).name);
  }
  fail(ErrorKind::internal, "the nodes of the graph '{}' have no order", graph.name);
}

}  // namespace rlx
