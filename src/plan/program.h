// A graph as dispatches over storages that have no place yet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/lowering.h"
#include "rlx/graph.h"

namespace rlx {

struct Program {
  struct Output {
    std::string name;
    Operand operand;  // contiguous
  };

  std::vector<Storage> storages;
  // Depend on params and constants only: executed before the first run after a change of params.
  std::vector<Dispatch> load;
  std::vector<Dispatch> main;  // run each time
  std::map<ValueId, Operand> values;
  std::vector<Output> outputs;
};

// Lowers a static graph in which every view can be read by its users (passes/materialize_views.cpp).
Program lower(const Graph& graph, const Target& target);

// Gives the storages of `program` the sizes that they have in `largest`, the same graph at the capacities of
// its symbols, so that a plan can grow into them, and lets operands share memory only where they may at both.
// The kernels remain those for the current sizes: at its full capacity a slice is the whole tensor and
// simpler than at any other length.
void reserve(Program& program, const Graph& graph, const Program& largest, const Graph& largest_graph);

// The memory layout of a value: which value's storage it lies in, and how. Views and state writes share
// storage.
struct Layout {
  ValueId root;
  View view;
};
std::map<ValueId, Layout> value_layouts(const Graph& graph);

}  // namespace rlx
