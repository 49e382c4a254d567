// The flags that say how a model is compiled.
#pragma once

#include <string>
#include <vector>

#include "cli/graph_file.h"
#include "rlx/compile.h"

namespace rlx::cli {

// The values of --dim, each NAME=N.
SymbolValues parse_dims(const std::vector<std::string>& items);
// A Misuse if --dim names a symbol that the model does not have.
void expect_symbols(const Model& model, const SymbolValues& dims);

struct GraphFlags {
  ModelFlags model;
  std::vector<std::string> dims;        // symbol=number
  std::vector<std::string> capacities;  // symbol=number
  std::vector<std::string> kernels;     // op=variant
  std::string precision = "exact";
  bool no_optimize = false;

  Model load() const;  // with the capacities

  void add_to(Command& command);  // with the file
  void add_flags_to(Command& command);
  // The flags as they are given, without the file and the inputs.
  std::vector<std::string> words() const;
  // From --dim and the shapes of the inputs that are given. All symbols of the graph must be bound, and
  // nothing else.
  SymbolValues symbols(const Model& loaded) const;
  // Those of them that stay open in the compiled model: the ones with a --capacity, for which memory is
  // planned.
  SymbolValues open_symbols(const Model& loaded) const;
  // `options` with what the flags say; the symbols are those that do not stay open.
  CompileOptions options(const Model& loaded, CompileOptions options = {}) const;
  // What the flags say that is not about sizes.
  void add_choices_to(CompileOptions& options) const;
  // Says on stderr which of the --kernel choices no dispatch of the plan follows.
  void note_unused_kernels(const PlanReport& plan) const;
};

}  // namespace rlx::cli
