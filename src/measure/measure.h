// How long an executable takes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/executable.h"

namespace rlx::measure {

struct Measured {
  double first_ms = 0;  // including what the driver compiles at the first dispatch
  double wall_ms = 0;   // median of the warm runs
  double p90_ms = 0;    // nine of ten take no longer
  double cpu_ms = 0;    // user and system time of the whole process, median
  int64_t runs = 0;     // warm ones
};

double process_cpu_ms();  // of all threads, since the start

// A symbol with a value of its own in each run: 1, 2, ... up to `end`, and again.
struct Growing {
  std::string_view symbol;
  int64_t end = 1;
};

// Runs with all outputs read back each time, into memory allocated beforehand: for about `seconds`, at
// least 5 and at most `max_runs` warm runs.
Measured measure_runs(Executable& exe, const NamedTensors& inputs, double seconds, int64_t max_runs,
                      std::span<const Growing> growing = {});

// The device's times of the dispatches of a run, the one of five in which they add up to the least.
std::vector<DispatchReport> fastest_dispatches(Executable& exe, const NamedTensors& inputs,
                                               const SymbolValues& symbols);

// Told the name of what is measured next: for those who wait.
using Announce = std::function<void(const std::string& what)>;

}  // namespace rlx::measure
