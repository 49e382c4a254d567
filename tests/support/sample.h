// One-op graphs made from the samples that ops declare (runtime/op_samples.h), under the name that tests
// know.
#pragma once

#include "runtime/op_samples.h"

namespace rlx::testing {

using rlx::make_sample;
using rlx::random_tensor;
using rlx::Reach;
using rlx::Sample;
using rlx::types_of;

}  // namespace rlx::testing
