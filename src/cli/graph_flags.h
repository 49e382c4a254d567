// The flags that say how a model is compiled.
#pragma once

#include <string>
#include <vector>

#include "cli/graph_file.h"
#include "rlx/compile.h"

namespace rlx::cli {

// The values of --dim, each NAME=N.
SymbolValues parse_dims(const std::vector<std::string>& items);

struct GraphFlags {
  ModelFlags model;
  std::vector<std::string> dims;     // symbol=number
  std::vector<std::string> kernels;  // op=variant
  std::string precision = "exact";
  bool no_optimize = false;

  LoadedModel load() const { return model.load(parse_dims(dims)); }

  void add_to(Command& command);  // with the file
  void add_flags_to(Command& command);
  // From --dim and the shapes of the inputs that are given. All symbols of the graph must be bound, and
  // nothing else.
  SymbolValues symbols(const LoadedModel& loaded) const;
  // `options` with what the flags say.
  CompileOptions options(const LoadedModel& loaded, CompileOptions options = {}) const;
  // Says on stderr which of the --kernel choices no dispatch of the plan follows.
  void note_unused_kernels(const PlanReport& plan) const;
};

}  // namespace rlx::cli
