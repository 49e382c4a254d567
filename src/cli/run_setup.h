// From the flags of a command to a model that is about to run.
#pragma once

#include <string>
#include <vector>

#include "cli/graph_flags.h"
#include "measure/leaf_values.h"
#include "rlx/compile.h"

namespace rlx::cli {

// Where the values come from that neither the model nor --input has.
struct ValueFlags {
  uint64_t seed = 1;
  std::string load;  // a safetensors file

  void add_to(Command& command);
  // All files that are read, those of the model included, for check_outputs.
  std::vector<std::string> files(const GraphFlags& graph) const;
};

// All of a run that needs no device: the model, the sizes of its symbols, a value for each input and param,
// and how it is compiled.
struct RunSetup {
  Model model;
  CompileOptions options;
  SymbolValues open;  // GraphFlags::open_symbols
  Graph graph;        // the model's, with all symbols bound
  measure::LeafValues leaves;
  double load_ms = 0;
};
// Finds every misuse of these flags; no device is needed yet.
RunSetup set_up_run(const GraphFlags& graph, const ValueFlags& values, const CompileOptions& options = {});

// A model on a device, with its params there.
struct CompiledModel {
  Executable exe;
  double compile_ms = 0;
  double upload_ms = 0;
};
CompiledModel compile_model(const RunSetup& setup, const Device& device);

}  // namespace rlx::cli
