// A run against the CPU reference.
#pragma once

#include "cli/ready_model.h"
#include "rlx/executable.h"

namespace rlx::cli {

// Node by node from the device's own inputs, then the outputs from the inputs on. Prints where they first
// part and by how much, and fails if they do. The run kept its intermediates; `repeat` is how often it ran.
void verify_run(Executable& exe, const ReadyModel& model, const NamedTensors& outputs, int64_t repeat = 1);

}  // namespace rlx::cli
