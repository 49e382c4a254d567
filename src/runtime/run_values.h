// For which values of the sizes that only the run knows a graph is planned.
#pragma once

#include <cstdint>
#include <string>

#include "ir/run_sizes.h"
#include "rlx/graph.h"

namespace rlx {

// past = 3, tokens = 1
std::string symbols_text(const SymbolValues& symbols);

// A length for which a graph is lowered so that others up to the capacity can use the same kernels: at its
// capacity, at 1, or at a multiple of four, a slice has a simpler layout than at other lengths.
int64_t typical_length(int64_t capacity);

// The values with those of run symbols at their capacities, which may depend on each other.
template <class Symbols>
SymbolValues with_capacities(SymbolValues values, const Symbols& run) {
  for (size_t left = run.size(); left > 0; --left) {
    for (const auto& [name, symbol] : run) {
      const Dim capacity = symbol.capacity.bind(values);
      if (capacity.is_static()) values[name] = capacity.value();
    }
  }
  return values;
}

// All with the values of the caller's symbols.
struct RunValues {
  SymbolValues capacities;  // what the nodes that determine run symbols have room for
  // The largest with which the nodes fit together: an axis that is split into [2, 4] must have 6 elements,
  // although as many as 1000 could have been found.
  SymbolValues largest;
  SymbolValues typical;  // likewise
};

// An error if there are none with which the graph fits together.
RunValues run_values(const Graph& graph, const SymbolValues& given);

// The graph as nodes that determine sizes see it at these values: all others, which need not fit together,
// only have types there.
Graph at_capacity(const Graph& graph, const SymbolValues& values);

}  // namespace rlx
