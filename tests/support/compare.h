// The comparisons of the tests: with the double reference, within a tolerance that is derived, not guessed,
// or with numbers that another program computed. A NaN where a number is wanted never passes, as it would
// with std::max(worst, std::fabs(got - want)), which drops it.
#pragma once

#include <gtest/gtest.h>

#include <span>

#include "ir/op.h"
#include "ir/reference.h"

namespace rlx::testing {

// Floats match as in ir/tolerance.h; integers must be equal.
::testing::AssertionResult close(const Tensor& got, const RefTensor& want, const Tolerance& tolerance);

// No number differs by more than allowed + relative * |want|. NaN matches NaN, infinities match themselves.
// Tensors must have the same type and dims.
::testing::AssertionResult within(std::span<const double> got, std::span<const double> want, double allowed,
                                  double relative = 0);
::testing::AssertionResult within(const Tensor& got, const Tensor& want, double allowed, double relative = 0);

// The size of the largest finite number, which tolerances are relative to: an infinity would allow anything.
double largest_size(std::span<const double> values);

}  // namespace rlx::testing
