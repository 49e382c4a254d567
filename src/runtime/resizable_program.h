// A program with what it was lowered from, so that its nodes can be lowered again when sizes change.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/op.h"
#include "kernels/target.h"
#include "plan/program.h"
#include "rlx/graph.h"

namespace rlx {

// A main graph with its program for one set of symbol values, whose storages may have room for others. Made
// by lower_resizable; a DevicePlan keeps it.
struct ResizableProgram {
  Graph symbolic;                 // after the passes for sizes
  SymbolValues values;            // of all its symbols, those included that only the run knows
  std::vector<int32_t> changing;  // nodes that are lowered again for other values
  // Symbols that only the run knows: the node that determines it, and those that depend on it.
  struct RunSymbol {
    std::string node;  // its name in Program::names
    Dim capacity;
    std::vector<int32_t> changing;
  };
  std::map<std::string, RunSymbol> run_symbols;

  // The ops of those nodes that have symbols themselves, or whose inputs have.
  std::map<int32_t, Rebindable> rebindable;

  SizedGraph sized;         // `symbolic` with `values`
  SymbolValues capacities;  // the values of sized.at_capacity
  Program program;

  // Gives the nodes sizes for these values, and run symbols their capacities.
  void bind(const SymbolValues& values, const std::vector<int32_t>& nodes);
};

// `values` are those of the caller's symbols, of which `growing` may have others later; symbols that only the
// run knows get a typical one.
ResizableProgram lower_resizable(const Graph& main, const Target& target, const SymbolValues& values,
                                 const std::set<std::string>& growing);

// Gives the storages room for the capacities of the caller's symbols and of those that only the run knows;
// the reason if the program cannot serve them.
std::optional<std::string> reserve(ResizableProgram& program, const Target& target,
                                   const SymbolValues& capacities);

}  // namespace rlx
