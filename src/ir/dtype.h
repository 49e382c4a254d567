// What the rest of the code knows about element types besides rlx/dtype.h.
#pragma once

#include "rlx/dtype.h"

namespace rlx {

size_t device_bytes(DType type);  // of one element in device memory
// The distance between 1 and the next number of a float type, the unit in which tolerances are stated.
double epsilon(DType type);

}  // namespace rlx
