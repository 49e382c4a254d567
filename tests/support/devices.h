// The devices that tests run on, opened once per process.
#pragma once

#include "rlx/compile.h"

namespace rlx::testing {

// The machine's device with all it has.
const Device& full_device();
// The same with the smallest limits a WebGPU device may have, and smaller: 8 storage buffers of 64 KiB, 64
// workgroups per dimension, no f16, no subgroups. Small tensors then take the paths that only huge ones take
// on a real GPU.
const Device& small_device();

}  // namespace rlx::testing
