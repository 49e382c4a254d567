// A graph as dispatches over storages that have no place yet.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/lowering.h"
#include "rlx/graph.h"

namespace rlx {

// What a branch, a loop or a node that determines a size became: the host goes through a list of these, and
// where it needs to know a word that the device has computed, it waits for it. Words are i32 scalars, named
// by their storage. The list does not depend on sizes, but for the dispatches.
struct Instruction {
  enum class Kind : uint8_t {
    run,     // `count` dispatches from `first` on, counted from the first of the node
    unless,  // goes on at `target` if the word is 0
    jump,    // goes on at `target`
    begin,   // a loop: it has made no iterations; its limit is `trips`, and the word if there is one
    test,    // goes on at `target` if the loop has made all iterations, or if the word is 0
    next,    // it has made one more; goes on at `target`
    size,    // the word is the value of `symbol`, at most `capacity`
  };
  static constexpr int32_t kNoWord = -1;
  static constexpr int64_t kNoLimit = INT64_MAX;

  Kind kind = Kind::run;
  size_t first = 0, count = 0;
  int32_t word = kNoWord;
  size_t target = 0;
  size_t loop = 0;  // its number in the node
  int64_t trips = kNoLimit;
  // For `test`: an iteration after the word has become 0 changes nothing, so that several can be made before
  // it is read.
  bool masked = false;
  std::string symbol = {};
  int64_t capacity = 0;
  int32_t name = -1;  // of the node that determines the size, in Program::names
};

struct Program {
  struct Output {
    std::string name;
    ValueId value;  // contiguous
  };
  // Of a node, or of one in a body: its name then begins with that of the node that owns the body ("y/z"),
  // and of a branch also says which ("y/then/z").
  struct NodeName {
    std::string name, op;
  };
  struct Loop {
    size_t first, end;  // dispatches of an iteration
  };
  // What a node became.
  struct Work {
    int32_t node;
    size_t first, count;           // dispatches
    std::vector<int32_t> scratch;  // storages, in the order in which the op asked for them
    ChoiceLog choices;
    std::vector<Instruction> code;  // none: it runs all its dispatches
    std::vector<Loop> loops;        // counted like `first`
  };

  std::vector<Storage> storages;
  std::vector<Dispatch> dispatches;
  std::map<ValueId, Operand> values;
  std::vector<Work> work;  // in running order; nodes that are only views have none
  std::vector<Output> outputs;
  std::vector<NodeName> names;  // by the number that storages and dispatches have: nodes of the graph first
  std::map<std::string, int32_t> body_numbers;  // of those in bodies, by name
  // Storages of params and states by name: a body has those of the executable.
  std::map<std::string, int32_t> leaves;

  // The storage with a word for each of `names` that becomes 1 if an i64 needs more than 32 bits there; -1 if
  // no kernel could report that.
  int32_t overflow = -1;

  const Operand& operand(const Output& output) const { return values.at(output.value); }
};

// A graph with numbers for all of its symbols: what is lowered. Made by binding them (bind_symbols).
struct SizedGraph {
  Graph graph;
  // Where sizes are known only to the run, the same for the capacities of those: nodes that determine one are
  // lowered for its capacity, those that depend on it for a value. Else empty.
  Graph at_capacity = {};
  // Symbols of such sizes, by the name of the node that determines it (Program::NodeName).
  std::map<std::string, std::string> run_symbols = {};

  const Graph& largest() const { return run_symbols.empty() ? graph : at_capacity; }
};

// Lowers a static graph in which every view can be read by its users (passes/materialize_views.cpp).
Program lower(const SizedGraph& graph, const Target& target);
inline Program lower(const Graph& graph, const Target& target) { return lower(SizedGraph{graph}, target); }

// The dispatches of nodes for other values of the symbols.
struct Relowered {
  struct Node {
    size_t work;          // its index
    size_t first, count;  // of `dispatches`
    std::vector<Instruction> code;
  };
  std::vector<Node> nodes;
  std::vector<Dispatch> dispatches;

  std::span<const Dispatch> of(const Node& node) const {
    return std::span(dispatches).subspan(node.first, node.count);
  }
};

// Lowers `nodes`, in their order, for `graph`: the one of the program, but with other sizes in these nodes.
// What `relowered` holds is replaced; its memory is used again. `target` is given the choices of each node.
// The same kernels are chosen where they still apply, and storages keep their numbers; a node that needs more
// of them gets new ones. If `grow`, storages get room for these sizes too. Else the name of the first node
// that needs more memory than it has is returned, if there is one; the values of the program are then those
// of a part of the nodes, and lowering them once more sets this right.
std::optional<std::string> relower(Program& program, const SizedGraph& graph, Target& target,
                                   const std::vector<int32_t>& nodes, bool grow, Relowered& relowered);

}  // namespace rlx
