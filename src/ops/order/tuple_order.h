// The order of tuples that are compared part by part, such as the rows of a matrix.
#pragma once

#include <vector>

#include "kernels/lowering.h"

namespace rlx {

struct LexicographicOrder {
  Operand order;  // u32[tuples]: which tuple is in place i; equal ones keep their order
  Operand heads;  // u32[tuples]: 1 where the tuple in place i differs from the one before it, else 0
};

// Of the slices of x along some axes (ascending), of which there is at least one; its other axes have the
// parts. The number of dispatches grows with the logarithms of both sizes: a picture has more parts than a
// plan can have dispatches.
LexicographicOrder lower_lexicographic_order(Lowering& l, const Operand& x,
                                             const std::vector<int64_t>& tuple_axes);

// y[i] = table[indices[i]], all of them rows of u32.
Operand lower_row_gather(Lowering& l, const Operand& table, const Operand& indices);

}  // namespace rlx
