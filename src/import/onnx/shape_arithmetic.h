// Integers that are known while importing are computed then, in 64 bits and with symbols, so that dynamic
// shapes need no work on the device.
#pragma once

#include "import/onnx/call.h"

namespace rlx::onnx {

// Computes the outputs if the op is one of shape arithmetic and everything it needs is known; otherwise
// returns false, and the op is imported by its rule.
bool fold_ints(Call& call);

}  // namespace rlx::onnx
