// Sub-graphs of nodes: the bodies of calls, branches and loops.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "rlx/graph.h"

namespace rlx {

// Calls `visit` with the graph, then with the sub-graphs of its nodes and, in turn, with theirs.
void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& visit);

// The `input` nodes of a body, in order: the inputs of the node that owns it stand for them.
std::vector<int32_t> body_inputs(const Graph& body);

// What the names of nodes in a sub-graph begin with in plans: "branch/then/", or "loop/" if it is the only
// one.
std::string prefix_within(std::string_view node, const Op& op, size_t subgraph);

// The op with `change` applied to each of its sub-graphs; the same pointer if it has none.
OpPtr map_subgraphs(const OpPtr& op, const std::function<Graph(const Graph&)>& change);

// Gives `target` the capacities of `from`; of two for one symbol the smaller holds.
void merge_capacities(Graph& target, const Graph& from);

// Adds the nodes of a body to `target` and returns what its outputs are there. `map` says which values of
// `target` stand for values of the body: for its inputs, and for leaves that `target` already has.
std::vector<ValueId> inline_body(Graph& target, const Graph& body, std::map<ValueId, ValueId> map);

// The name of the state that a value is a version of: the state itself, or what a write returned.
const std::string& state_name(const Graph& graph, ValueId version);
// The states that the sub-graphs of an op read, by name: true if one of them also writes it.
std::map<std::string, bool> states_in_bodies(const Op& op);
// Whether the node changes a state: it is a write, or its sub-graphs contain one. Such a node is executed as
// often as the graph says, and in the order it says.
bool writes_state(const Node& node);

}  // namespace rlx
