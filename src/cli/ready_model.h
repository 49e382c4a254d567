// From the flags of a command to a model that is about to run: loaded, with all values, compiled.
#pragma once

#include <string>
#include <vector>

#include "cli/graph_flags.h"
#include "cli/leaf_values.h"
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

struct ReadyModel {
  LoadedModel loaded;
  CompileOptions options;
  SymbolValues open;  // GraphFlags::open_symbols
  Graph graph;        // with all symbols bound
  LeafValues leaves;
  double load_ms = 0;
};
// Finds every misuse of these flags; no device is needed yet.
ReadyModel ready_model(const GraphFlags& graph, const ValueFlags& values, const CompileOptions& options = {});

struct CompiledModel {
  Executable exe;
  double compile_ms = 0;
  double upload_ms = 0;
};
// With its params on the device.
CompiledModel compile_model(const ReadyModel& model, const Device& device);

}  // namespace rlx::cli
