// Sizes that only the run knows: a node such as `nonzero` names one by a symbol, its run symbol, which then
// stands in the types of all that depends on it. The caller gives no value for it, but memory is planned for
// its capacity.
#pragma once

#include <map>
#include <set>
#include <string>

#include "rlx/graph.h"

namespace rlx {

struct RunSymbol {
  const Graph* graph = nullptr;  // the given one or a sub-graph of it,
  int32_t node = -1;             // and the node there whose run determines the symbol
  // The largest value: what `symbol n <= 64` says in that graph or in the given one, or else the bound that
  // the op has, which may contain symbols (those that the caller gives, and run symbols of earlier nodes).
  Dim capacity;
};

// The run symbols of a graph and of all its sub-graphs, by name. An error if two nodes determine the same
// one, or if one has no capacity.
std::map<std::string, RunSymbol> run_symbols(const Graph& graph);

// The symbols in the types and attributes of a node, sub-graphs included.
std::set<std::string> symbols_of(const Node& node);

// An error that names the node for a run symbol that is used where it has no value: before its node, outside
// of the body that determines it, or in the type of an input, param or state.
void verify_run_symbols(const Graph& graph);

}  // namespace rlx
