// One value everywhere.
#pragma once

#include "kernels/lowering.h"

namespace rlx {

// The value in the form in which kernels take it as a parameter (y_from_bits).
uint32_t value_bits(DType dtype, double value);
// Sets every element of a contiguous y.
void lower_fill(Lowering& l, const Operand& y, double value);

}  // namespace rlx
