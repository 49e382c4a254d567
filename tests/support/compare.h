// Comparing what the device computed with the double reference, within a tolerance that is derived, not
// guessed.
#pragma once

#include <gtest/gtest.h>

#include "ir/op.h"
#include "ir/reference.h"

namespace rlx::testing {

// |got - want| <= eps32 * (ulps + 4*sqrt(terms)) * max(|want|, scale) + eps(type)*|want| (one rounding of the
// stored type) + the smallest normal f32. NaN matches NaN, infinities match themselves; integers must be
// equal. Values that a narrow type cannot hold match its infinity.
::testing::AssertionResult close(const Tensor& got, const RefTensor& want, const Tolerance& tolerance);

}  // namespace rlx::testing
