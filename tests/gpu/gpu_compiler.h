// Runs of the tests on the compilers of GPUs that are not there (tests/on_simulated_gpu.sh): what graphs
// become is compiled by the real driver and nothing is computed, so nothing is compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlx/compile.h"

namespace rlx::testing {

// Whether this is such a run.
bool only_compiles();

// Plans the graph and has the driver compile each of its modules, of which those that came before are left
// out. What does not compile is a failure of the test that names the kernel; a crash, or a module that takes
// more than a minute, ends the program and names it too.
void compile_for_gpu(const Graph& graph, const CompileOptions& options = {},
                     const SymbolValues& symbols = {});
// Only plans it.
void plan_for_gpu(const Graph& graph, const CompileOptions& options = {}, const SymbolValues& symbols = {});

// The modules of this program so far that save registers to memory, as far as the driver says so.
struct Spilling {
  std::string kernel;
  int64_t spills = 0;
};
const std::vector<Spilling>& spilling_modules();

}  // namespace rlx::testing
