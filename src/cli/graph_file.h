// Graph text files and the flags that say how one is compiled.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "rlx/compile.h"

namespace rlx::cli {

struct GraphFlags {
  std::string file;
  std::vector<std::string> dims;     // symbol=number
  std::vector<std::string> kernels;  // op=variant
  std::string precision = "exact";
  bool no_optimize = false;

  void add_to(Command& command);
  // Errors name the file and the line.
  Graph read() const;
  // All symbols of the graph must be bound, and nothing else.
  SymbolValues symbols(const Graph& graph) const;
  CompileOptions options(const Graph& graph) const;
  // Says on stderr which of the --kernel choices no dispatch of the plan follows.
  void note_unused_kernels(const PlanReport& plan) const;
};

// Values for the inputs and params of a static graph: from the safetensors file where it has them, otherwise
// random. The same seed yields the same numbers on every machine.
struct LeafValues {
  NamedTensors inputs;
  NamedTensors params;
  std::vector<std::string> random;  // the names of those that no file had
  NamedTensors all() const;
};
LeafValues make_leaf_values(const Graph& graph, uint64_t seed, const std::string& safetensors_path);

}  // namespace rlx::cli
