// Depthwise convolutions of bytes.
#pragma once

#include "kernels/lowering.h"
#include "ops/convolution/conv_problem.h"

namespace rlx {

// Each channel with one filter of its own, along at most two axes, four neighbouring results at a time.
// False, and nothing emitted, if the problem is another one or cannot be bound as a whole.
bool lower_byte_depthwise(Lowering& l, const ConvProblem& p);

}  // namespace rlx
