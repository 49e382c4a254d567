#include "ir/states.h"

#include <functional>
#include <map>
#include <queue>

#include "ir/op.h"
#include "ir/run_sizes.h"
#include "ir/subgraphs.h"

namespace rlx {

std::set<int32_t> written_params(const Graph& graph) {
  std::set<int32_t> out;
  for (const Node& n : graph.nodes()) {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const bool written = n.op->overwrites(static_cast<int64_t>(i));
      if (written && graph.producer(n.inputs[i]).op->is(LeafKind::param)) out.insert(n.inputs[i].node);
    }
  }
  return out;
}

StateVersions::StateVersions(const Graph& graph) {
  std::map<std::string, Newest> newest;   // by the name of the state
  std::map<ValueId, std::string> states;  // of each version
  const std::set<int32_t> params = written_params(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!n.op->is(LeafKind::state) && !params.contains(id)) continue;
    newest[n.name] = {.made_by = id, .version = {id, 0}};
    version_[{id, 0}] = {id, 0};
    states[{id, 0}] = n.name;
  }
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.op->has(Trait::view)) {
      if (const ValueId shown = version(n.inputs[0]); !shown.is_absent()) version_[{id, 0}] = shown;
    }
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (!n.op->overwrites(static_cast<int64_t>(i))) continue;
      const ValueId old = n.inputs[i];
      if (version(old) != old)
        fail("node '{}': input {} is '{}', which is neither a state nor a param", n.name, i,
             graph.producer(old).name);
      const ValueId written{id, static_cast<int32_t>(i)};
      writer_[old] = id;
      version_[written] = written;
      states[written] = states[old];
      overwrite(newest[states[written]], id, written);
    }
    for (const auto& [name, writes] : states_in_bodies(*n.op)) use_in_body(newest[name], id, writes);
  }
}

void StateVersions::overwrite(Newest& newest, int32_t writer, ValueId version) {
  for (const int32_t reader : newest.body_readers) body_order_.emplace_back(reader, writer);
  newest = {.made_by = writer, .version = version};
  any_overwritten_ = true;
}

void StateVersions::use_in_body(Newest& newest, int32_t node, bool writes) {
  if (newest.made_by >= 0) body_order_.emplace_back(newest.made_by, node);
  if (!writes) {
    newest.body_readers.push_back(node);
    return;
  }
  if (!newest.version.is_absent()) writer_[newest.version] = node;
  overwrite(newest, node, {});
}

ValueId StateVersions::version(ValueId v) const {
  const auto it = version_.find(v);
  return it == version_.end() ? ValueId{} : it->second;
}

int32_t StateVersions::writer(ValueId v) const {
  const auto it = writer_.find(version(v));
  return it == writer_.end() ? -1 : it->second;
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
    const auto& states = scheduler.states();
    for (ValueId v : graph.node(id).inputs) {
      if (states.writer(v) != id || states.version(v) != v || !scheduler.still_waits(id)) continue;
      fail("node '{}' overwrites the state '{}', whose old contents are needed after it; copy them first",
           graph.node(id).name, graph.producer(v).name);
    }
  }
  fail(ErrorKind::internal, "the nodes of the graph '{}' have no order", graph.name);
}

}  // namespace rlx
