#include <map>

#include "base/border.h"
#include "ir/infer.h"
#include "ir/op.h"
#include "ir/run_sizes.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

void verify_one(const Graph& graph);

void verify_node(const Graph& graph, int32_t id) {
  const Node& n = graph.node(id);
  for (ValueId v : n.inputs) {
    if (v.node >= id) fail("node '{}' uses a value that is made after it", n.name);
  }
  const std::vector<TensorType> inferred = infer_outputs(graph, *n.op, n.inputs);
  if (inferred != n.outputs) {
    fail("node '{}' ({}) is recorded as {}, but its inputs give {}", n.name, n.op->name(),
         n.outputs[0].text(), inferred[0].text());
  }
  for (const auto& [which, sub] : n.op->subgraphs()) {
    verify_one(*sub);
    for (const Graph::Output& o : sub->outputs()) {
      if (!o.count.empty())
        fail("node '{}': the output '{}' of its sub-graph is counted; only the whole graph's can be", n.name,
             o.name);
    }
  }
}

void verify_count(const Graph& graph, const Graph::Output& o) {
  const auto count = std::ranges::find(graph.outputs(), o.count, &Graph::Output::name);
  if (count == graph.outputs().end())
    fail("the output '{}' is counted by '{}', which is not an output", o.name, o.count);
  const TensorType& type = graph.type(count->value);
  if (!is_integer(type.dtype) || type.shape.rank() != 0) {
    fail("the output '{}' is counted by '{}', which is {}; it must be an integer scalar", o.name, o.count,
         type.text());
  }
  const int64_t rank = graph.type(o.value).shape.rank();
  if (o.axis < 0 || o.axis >= rank)
    fail("the output '{}' is counted along axis {}, but its rank is {}", o.name, o.axis, rank);
}

// Each version of a state is written once: by a node that takes it as an input, or by the body of a node.
void verify_writes(const Graph& graph) {
  const StateVersions versions(graph);
  std::map<ValueId, int32_t> writer;      // by version
  std::map<std::string, ValueId> newest;  // version of each state that is a value of this graph
  std::map<ValueId, std::string> state;   // of each version
  const auto write = [&](ValueId version, int32_t by) {
    if (const auto [it, fresh] = writer.emplace(version, by); !fresh) {
      fail("node '{}' writes a state that '{}' has already overwritten; write the value that it returned",
           graph.node(by).name, graph.node(it->second).name);
    }
  };
  const std::set<int32_t> params = written_params(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    if (!graph.node(id).op->is(LeafKind::state) && !params.contains(id)) continue;
    newest[graph.node(id).name] = {id, 0};
    state[{id, 0}] = graph.node(id).name;
  }
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (!n.op->overwrites(static_cast<int64_t>(i))) continue;
      const ValueId written{id, static_cast<int32_t>(i)};
      write(n.inputs[i], id);
      state[written] = state[n.inputs[i]];
      newest[state[written]] = written;
    }
    for (const auto& [name, writes] : states_in_bodies(*n.op)) {
      if (!writes) continue;
      for (ValueId v : n.inputs) {
        // An input keeps its value while the body runs.
        if (const ValueId shown = versions.version(v); !shown.is_absent() && state[shown] == name)
          fail("node '{}' takes the state '{}' as an input, and its body writes it; copy it first", n.name,
               name);
      }
      const auto version = newest.find(name);
      if (version == newest.end()) continue;
      write(version->second, id);
      newest.erase(version);
    }
  }
}

void verify_one(const Graph& graph) {
  if (graph.outputs().empty()) fail("the graph '{}' has no output", graph.name);
  for (int32_t id = 0; id < graph.size(); ++id) verify_node(graph, id);
  for (const Graph::Output& o : graph.outputs()) {
    if (!o.count.empty()) verify_count(graph, o);
  }
  verify_writes(graph);
}

// A body would not know which version of such a param it reads.
void verify_written_params(const Graph& top) {
  std::map<std::string, const Node*> written;
  for_each_graph(top, [&](const Graph& graph) {
    for (const int32_t id : written_params(graph)) {
      if (&graph != &top)
        fail("the body '{}' writes the param '{}'; only the graph around all bodies can", graph.name,
             graph.node(id).name);
      written.emplace(graph.node(id).name, &graph.node(id));
    }
  });
  if (written.empty()) return;
  for_each_graph(top, [&](const Graph& graph) {
    for (const Node& n : graph.nodes()) {
      if (&graph != &top && n.op->is(LeafKind::param) && written.contains(n.name))
        fail("the body '{}' reads the param '{}', which the graph writes; give it to the body as an input",
             graph.name, n.name);
    }
  });
}

// Params and states of sub-graphs belong to the whole: one name is one tensor.
void verify_shared_leaves(const Graph& graph) {
  std::map<std::string, const Node*> known;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node& n : g.nodes()) {
      const bool shared = n.op->is(LeafKind::param) || n.op->is(LeafKind::state);
      if (!shared && !(n.op->is(LeafKind::input) && &g == &graph)) continue;
      const auto [it, fresh] = known.emplace(n.name, &n);
      const Node& first = *it->second;
      if (fresh || (first.op->leaf() == n.op->leaf() && first.outputs == n.outputs)) continue;
      fail("the {} '{}' of the graph '{}' is {}, but elsewhere '{}' is the {} {}; one name is one tensor",
           n.op->name(), n.name, g.name, n.outputs[0].text(), n.name, first.op->name(),
           first.outputs[0].text());
    }
  });
}

}  // namespace

void verify(const Graph& graph) try {
  verify_one(graph);
  verify_shared_leaves(graph);
  verify_written_params(graph);
  verify_run_symbols(graph);
} catch (...) {
  throw_as_error("verifying a graph");
}

}  // namespace rlx
