// How long an executable takes.
#pragma once

#include <vector>

#include "rlx/executable.h"

namespace rlx::cli {

struct Measured {
  double first_ms = 0;  // including what the driver compiles at the first dispatch
  double wall_ms = 0;   // median of the warm runs
  double cpu_ms = 0;    // user and system time of the whole process, median
  int64_t runs = 0;     // warm ones
};

// Runs with all outputs read back each time, into memory allocated beforehand: for about `seconds`, at
// least 5 and at most `max_runs` warm runs.
Measured measure(Executable& exe, const NamedTensors& inputs, double seconds, int64_t max_runs);

}  // namespace rlx::cli
