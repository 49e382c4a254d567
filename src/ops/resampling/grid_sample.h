// What deformable convolutions take from grid_sample.
#pragma once

#include "rlx/value.h"

namespace rlx {

// grid_sample, linear and with zeros outside, at places that are given as indices of x.
Value sample_at(Value x, Value places);

}  // namespace rlx
