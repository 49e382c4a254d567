// Comparing what the device computed with the double reference, within a tolerance that is derived, not
// guessed.
#pragma once

#include <gtest/gtest.h>

#include "ir/op.h"
#include "ir/reference.h"

namespace rlx::testing {

// Floats match as in ir/tolerance.h; integers must be equal.
::testing::AssertionResult close(const Tensor& got, const RefTensor& want, const Tolerance& tolerance);

}  // namespace rlx::testing
