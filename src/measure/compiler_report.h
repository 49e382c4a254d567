// How the compiler of a simulated GPU's driver compiles the modules of a graph, in processes of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/measure.h"
#include "measure/simulated_gpu.h"

namespace rlx::measure {

struct CompiledModule {
  std::string kernel, variant;
  std::string op, node;  // of the first dispatch that uses it
  bool load = false;     // that dispatch is of the load phase
  int64_t dispatches = 0;
  std::optional<double> compile_ms = {};  // with the translation from WGSL
  ShaderStatistics statistics = {};
  std::string failure = {};  // a sentence; "": it compiles
};

struct CompilerReport {
  std::string adapter, driver;  // as they name themselves
  std::vector<CompiledModule> modules;
  std::string failure = {};  // of the graph before any module is compiled; "": none

  bool failed() const;
};

// The process that does it is `rlx gpu-report --inside DEVICE` with these arguments, and this is what is said
// between the two: it lists the modules, is then told numbers of modules, and answers each with a result.
Json module_list(const CompilerReport& report);
Json module_result(const CompiledModule& module);
// Before each such line: drivers print, too.
inline constexpr std::string_view kReportMark = "@rlx ";

// Cases of `rlx bench` that have the main kernels between them: products, attention, norms, softmax, products
// with one row, encoded weights. None of them may spill.
std::span<const std::string_view> main_cases();

struct CompilerLimits {
  double seconds_of_planning = 300;
  double seconds = 60;         // of a module
  double printing_factor = 5;  // more, where the driver prints the code
};

// `words` are the arguments that name the graph. A module on which the process ends or takes too long is a
// failure of that module only.
CompilerReport compile_on(const SimulatedGpu& gpu, const std::vector<std::string>& words,
                          const Announce& announce, const CompilerLimits& limits = {},
                          const std::string& program = "/proc/self/exe");

}  // namespace rlx::measure
