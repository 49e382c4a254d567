#include "ops/rearrange/write_state.h"

#include <algorithm>
#include <numeric>

#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/slice.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<TensorType> WriteState::infer(const InferArgs& in) const {
  if (states < 1 || states > in.count())
    fail("write_state: {} inputs cannot be {} states with an update each", in.count(), states);
  in.expect_count(2 * states);
  std::vector<TensorType> out(static_cast<size_t>(states));
  infer_again(in, out);
  return out;
}

void WriteState::infer_again(const InferArgs& in, std::vector<TensorType>& types) const {
  for (int64_t s = 0; s < states; ++s) {
    check_write(in, s, states + s);
    types[static_cast<size_t>(s)] = in[s];
  }
}

void WriteState::check_write(const InferArgs& in, int64_t state_input, int64_t update_input) const {
  in.expect_same_dtype(state_input, update_input);
  const Shape& state = in.shape(state_input);
  const Shape& update = in.shape(update_input);
  const int64_t a = in.axis(axis, state.rank());
  bool fits = update.rank() == state.rank();
  for (int64_t i = 0; fits && i < state.rank(); ++i) fits = i == a || update[i] == state[i];
  if (!fits) {
    fail("{}: the update {} does not fit the state {}; all dims except that of axis {} must be equal",
         in.op(), update.text(), state.text(), a);
  }
  check_slice(in.op(), state[a], start, update[a], 1);
}

Operand WriteState::replaced(const Operand& state, const Dims& update_dims) const {
  const int64_t a = normal_axis(axis, state.view.rank());
  return state.with_view(state.view.slice(a, start.value(), update_dims[static_cast<size_t>(a)]));
}

namespace {

bool overlap(const Operand& a, const Operand& b) {
  const View::Range x = a.view.range();
  const View::Range y = b.view.range();
  return a.storage == b.storage && x.begin < y.end && y.begin < x.end;
}

}  // namespace

void WriteState::reference(RefContext& r) const {
  for (int64_t s = 0; s < states; ++s) {
    const RefTensor& update = r.in(states + s);
    r.out(s) = r.in(s);
    const View places = replaced({.view = View::contiguous(r.in(s).dims)}, update.dims).view;
    std::vector<size_t> all(static_cast<size_t>(r.out(s).elements()));
    std::iota(all.begin(), all.end(), size_t{0});
    const std::vector<size_t> at = gather_view(all, places);
    visit_both(update, r.out(s), [&](const auto& from, auto& to) {
      for (size_t i = 0; i < at.size(); ++i) to[at[i]] = from[i];
    });
  }
}

void WriteState::lower(Lowering& l) const {
  InlineVector<CopyInto, 2> writes;
  for (int64_t s = 0; s < states; ++s) {
    const Operand& update = l.in(states + s);
    const Operand to = replaced(l.out(s), update.view.dims);
    if (to.view.elements() > 0) writes.push_back({update, to});
  }
  // Part of a state moved within it, or to another: no invocation may read what another has overwritten.
  for (CopyInto& w : writes) {
    const auto overwrites_it = [&](const CopyInto& other) { return overlap(w.x, other.y); };
    if (std::ranges::any_of(writes, overwrites_it)) w.x = lower_contiguous(l, w.x);
  }
  lower_copies_into(l, writes);
}

Value write_state(Value state, Value update, int64_t axis, Dim start) {
  auto op = std::make_shared<WriteState>();
  op->axis = axis;
  op->start = std::move(start);
  return add_node(op, {state, update});
}

namespace ops {
void register_write_state(OpTable& table) {
  table.add<WriteState>(
      {.formula = "the state with its entries from start on along axis replaced; it keeps them for the next "
                  "run. With states=n: n states, then their updates",
       .operands = "state: the state that is written, or a param\n"
                   "update... (any): what is written into it; of several states, the others and then an "
                   "update for each",
       .attributes = "axis: along which entries are replaced\n"
                     "start: the first entry that is replaced\n"
                     "states: how many states are written",
       .outputs = "y: the new contents of the state\n"
                  "others... (any): those of further states",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"copy_into"},
       .samples = {"write_state(state T[3,17], T[1,17]) {start=1}",
                   "write_state(state T[3,17], T[3,5]) {axis=-1, start=7}",
                   "write_state(state T[257], T[257])", "write_state(state T[257], T[1]) {start=256}",
                   "write_state(state T[4,3], T[0,3]) {start=4}", "write_state(state T[0], T[0])",
                   "write_state(state T[2,3,5], T[2,1,5]) {axis=1, start=2}",
                   "write_state(state T[65541], T[65537]) {start=3}",
                   "write_state(state T[3,17], state T[5,17], T[1,17], T[2,17]) {start=1, states=2}",
                   "write_state(state T[5], state T[4], state T[7], T[0], T[1], T[3]) {start=3, states=3}",
                   "write_state(state T[65541], state T[65541], T[65537], T[65537]) {start=3, states=2}"}});
}
}  // namespace ops

}  // namespace rlx
