// Updates of some elements or slices of a tensor, for scatter_elements and scatter_nd.
#pragma once

#include <functional>

#include "ir/reference.h"
#include "kernels/lowering.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

// Inference of both: x, integer indices, and updates of x's type that the reduction can join.
void check_scatter(const InferArgs& in, ScatterReduction reduction);
Tolerance scatter_tolerance(ScatterReduction reduction, const TensorType& updates);

// y = x, and y[slots[u]] joined with slice u of the updates, one after the other; slices have `inner`
// elements.
void reference_scatter(RefContext& r, ScatterReduction reduction, const std::vector<int64_t>& slots,
                       int64_t inner);

struct ScatterProblem {
  ScatterReduction reduction = ScatterReduction::none;
  Operand x;
  Operand slots;    // u32[u]: which slice of y
  Operand updates;  // the axes of u are its outer ones
  int64_t inner = 1;
  Operand y;  // contiguous
};
void lower_scatter(Lowering& l, const ScatterProblem& p);

// Emits make(begin, length, y) for parts that cover [0, extent), for kernels that write anywhere in y and ask
// y_has: if y cannot be bound at once, all parts for each window of it.
using WindowMaker = std::function<Dispatch(int64_t begin, int64_t length, const Operand& y)>;
void split_for_windows(Lowering& l, int64_t extent, const Operand& y, const WindowMaker& make);

// y[slots[i]] = the largest such i, or -1 where there is none.
void lower_last(Lowering& l, const Operand& slots, const Operand& y);
// y[i] = whether x[i] differs from x[i - 1], u32; x is a row.
void lower_heads(Lowering& l, const Operand& x, const Operand& y);

}  // namespace rlx
