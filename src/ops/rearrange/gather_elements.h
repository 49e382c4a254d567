// One element for each index, along an axis.
#pragma once

#include "kernels/lowering.h"

namespace rlx {

// y = x[..., indices, ...] along the axis, for a contiguous y with the dims of `indices`.
void lower_gather_elements(Lowering& l, const Operand& x, const Operand& indices, int64_t axis,
                           const Operand& y);

}  // namespace rlx
