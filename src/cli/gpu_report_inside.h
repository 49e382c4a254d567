// The graphs of `rlx gpu-report`, and its process inside a simulated device.
#pragma once

#include <string>
#include <vector>

#include "cli/graph_flags.h"
#include "measure/simulated_gpu.h"

namespace rlx::cli {

struct ReportedGraph {
  Graph graph;
  CompileOptions options = {};
  SymbolValues open = {};  // GraphFlags::open_symbols
};
// A case, a network or a file. Finds every misuse of the flags.
ReportedGraph load_graph(const std::string& name, const GraphFlags& flags);
// All files that are read, for check_outputs.
std::vector<std::string> gpu_report_files(const std::vector<std::string>& names, const GraphFlags& flags);

// The arguments by which the other process finds the same graph.
std::vector<std::string> inside_words(const std::string& name, const GraphFlags& flags, bool experimental);
// The other side of measure::compile_on.
void compile_inside(const measure::SimulatedGpu& gpu, const std::string& name, const GraphFlags& flags,
                    bool experimental);

}  // namespace rlx::cli
