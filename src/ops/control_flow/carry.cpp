#include "ops/control_flow/carry.h"

#include "kernels/carry.wgsl.h"
#include "kernels/loop_step.wgsl.h"
#include "kernels/word.wgsl.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

void lower_word(Lowering& l, const Operand& scalar, const Operand& word) {
  l.emit(l.make<kernels::word>({.x = scalar, .y = word}, {}, 1));
}

void lower_loop_step(Lowering& l, const Operand& more, const Operand& going, const Operand& iteration) {
  l.emit(l.make<kernels::loop_step>({.more = more, .going = going, .iteration = iteration}, {}, 1));
}

namespace {

void lower_rows(Lowering& l, const Operand& x, const Operand& going, const Operand& iteration,
                const Operand& y, bool stacked) {
  const int64_t count = x.view.elements();
  if (count == 0 || y.view.elements() == 0) return;
  const int64_t rows = stacked ? y.view.elements() / count : 1;
  const Dispatch whole =
      l.make<kernels::carry>({.x = x, .going = going, .iteration = iteration, .y = y},
                             {.count = to_u32(count), .stacked = stacked ? 1u : 0u, .rows = to_u32(rows)},
                             ceil_div(count, int64_t{kernels::carry::GROUP}));
  emit_in_windows(l, whole, 0, 3);
}

}  // namespace

void lower_carry(Lowering& l, const Operand& x, const Operand& going, const Operand& iteration,
                 const Operand& y) {
  lower_rows(l, x, going, iteration, y, false);
}

void lower_stack(Lowering& l, const Operand& x, const Operand& going, const Operand& iteration,
                 const Operand& y) {
  lower_rows(l, x, going, iteration, y, true);
}

}  // namespace rlx
