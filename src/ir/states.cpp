#include "ir/states.h"

#include <functional>
#include <queue>

#include "ir/op.h"

namespace rlx {

StateVersions::StateVersions(const Graph& graph)
    : version_(static_cast<size_t>(graph.size()), -1), writer_(static_cast<size_t>(graph.size()), -1) {
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.op->is(LeafKind::state) || (!n.inputs.empty() && n.op->overwrites(0))) {
      version_[static_cast<size_t>(id)] = id;
    } else if (n.op->has(Trait::view)) {
      version_[static_cast<size_t>(id)] = version(n.inputs[0]);
    }
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (!n.op->overwrites(static_cast<int64_t>(i))) continue;
      const int32_t old = version(n.inputs[i]);
      if (old != n.inputs[i].node) {
        fail("node '{}': input {} is '{}', which is not a state", n.name, i,
             graph.producer(n.inputs[i]).name);
      }
      writer_[static_cast<size_t>(old)] = id;
      any_overwritten_ = true;
    }
  }
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
