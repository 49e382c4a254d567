// One value everywhere.
#pragma once

#include "kernels/lowering.h"

namespace rlx {

// The value of that type as kernels take it in a parameter (y_from_bits).
uint32_t value_bits(DType dtype, double value);
// Every element of a contiguous y.
void lower_fill(Lowering& l, const Operand& y, double value);

}  // namespace rlx
