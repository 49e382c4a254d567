// A graph as dispatches over storages that have no place yet.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/lowering.h"
#include "rlx/graph.h"

namespace rlx {

struct Program {
  struct Output {
    std::string name;
    ValueId value;  // contiguous
  };
  // What a node became.
  struct Work {
    int32_t node;
    size_t first, count;           // dispatches
    std::vector<int32_t> scratch;  // storages, in the order in which the op asked for them
    ChoiceLog choices;
  };

  std::vector<Storage> storages;
  std::vector<Dispatch> dispatches;
  std::map<ValueId, Operand> values;
  std::vector<Work> work;  // in running order; nodes that are only views have none
  std::vector<Output> outputs;

  const Operand& operand(const Output& output) const { return values.at(output.value); }
};

// Lowers a static graph in which every view can be read by its users (passes/materialize_views.cpp).
Program lower(const Graph& graph, const Target& target);

// The dispatches of one node for other values of the symbols.
struct Relowered {
  size_t work;  // its index
  std::vector<Dispatch> dispatches;
};

// Lowers `nodes`, in their order, for `graph`: the one of the program, but with other sizes in these nodes.
// The same kernels are chosen, and storages keep their numbers. Storages grow if `grow` says so. Else, and if
// the nodes need other storages than before, the program cannot serve: the reason is returned. The values of
// the program are then those of a part of the nodes; lowering them once more sets this right.
std::optional<std::string> relower(Program& program, const Graph& graph, const Target& target,
                                   const std::vector<int32_t>& nodes, bool grow,
                                   std::vector<Relowered>& relowered);

}  // namespace rlx
