// Fills the caches without running anything.
#pragma once

#include <cstdint>

#include "rlx/executable.h"

namespace rlx {

// What was made of an executable's kernels.
struct CompiledAhead {
  int64_t dispatches = 0;  // of the load phase and of a run
  int64_t pipelines = 0;   // that the device had not made before
  int64_t translated = 0;  // of them: those that the cache folder did not have
};

// Has all pipelines of the executable made, also those of the load phase, for these values of the symbols
// that are open.
CompiledAhead compile_ahead(const Executable& executable, const SymbolValues& open);

}  // namespace rlx
