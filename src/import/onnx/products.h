// Products that several rules need.
#pragma once

#include "rlx/value.h"

namespace rlx::onnx {

// matmul for any type of number.
Value product(Value a, Value b);

}  // namespace rlx::onnx
