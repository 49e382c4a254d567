// All passes, in three stages: those of the whole graph, those that set its load phase apart, and those that
// need sizes. Which passes there are in a stage, in which order and why, is in pass_order.cpp alone.
#pragma once

#include <cstdint>
#include <span>

#include "passes/passes.h"
#include "rlx/graph.h"

namespace rlx {

struct PassOptions {
  bool packed_attention = true;
  Panels panels = {};
  bool byte_images = false;           // with channels last around depthwise convolutions of bytes
  int64_t max_region_inputs = 7;      // storage bindings of the device, minus one for the output
  int64_t fold_max_elements = 65536;  // larger results are computed in the load phase instead
};

// Once for a graph, with numbers for `symbols`; others stay open. What lowering asks for: ops that are
// written in terms of others, calls among them, are expanded, and nothing else is changed.
Graph run_expanding_passes(const Graph& source, const SymbolValues& symbols);
// The same, and the graph is optimised.
Graph run_optimizing_passes(const Graph& source, const SymbolValues& symbols, const PassOptions& options);

// Once for a graph, after those.
LoadSplit run_load_phase_passes(const Graph& graph);

// For each set of sizes, on LoadSplit::main: the graph keeps its symbols, and can be lowered for each of
// `sizes`, with the sizes that only the run knows up to `capacities`.
Graph run_size_passes(const Graph& main, std::span<const SymbolValues> sizes, const SymbolValues& capacities);

// The passes that rewrite a graph of ops that are lowered, also in the bodies of branches and loops: what
// run_optimizing_passes does after the expansion.
Graph optimize(const Graph& graph, const PassOptions& options);

}  // namespace rlx
