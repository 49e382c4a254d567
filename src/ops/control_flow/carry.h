// What loops do between iterations, and words that the host reads.
#pragma once

#include "kernels/lowering.h"

namespace rlx {

// A scalar of any integer type or bool as an i32.
void lower_word(Lowering& l, const Operand& scalar, const Operand& word);

// y = x if `going`, an i32 scalar, is not 0.
void lower_carry(Lowering& l, const Operand& x, const Operand& going, const Operand& iteration,
                 const Operand& y);
// The same for row `iteration` of y, which has one axis more; nothing if it has no such row.
void lower_stack(Lowering& l, const Operand& x, const Operand& going, const Operand& iteration,
                 const Operand& y);
// If going: counts the iteration, and the loop goes on only if `more`.
void lower_loop_step(Lowering& l, const Operand& more, const Operand& going, const Operand& iteration);

}  // namespace rlx
