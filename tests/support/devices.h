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
// The machine's device with matrix units that it does not have, made of arrays: those of 8 x 8 x 8 f32 that
// Apple's GPUs have, of 16 x 16 x 16 and 8 x 16 x 16 f16, and of 16 x 16 x 16 i8.
const Device& emulating_device();
// The same with the units that it really has.
const Device& experimental_device();

}  // namespace rlx::testing
