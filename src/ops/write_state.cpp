#include <numeric>

#include "ir/reference.h"
#include "ops/copy.h"
#include "ops/op_table.h"
#include "ops/slice.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

// The state with the entries from `start` on along `axis` replaced by the update. The result is the state's
// own memory.
struct WriteState final : OpOf<WriteState> {
  static constexpr auto kName = "write_state";
  int64_t axis = 0;
  Dim start = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, 0);
    v("start", start, 0);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  bool overwrites(int64_t input) const override { return input == 0; }

  View slice(const View& state, const std::vector<int64_t>& update_dims) const {
    const int64_t a = normal_axis(axis, state.rank());
    return state.slice(a, start.value(), update_dims[static_cast<size_t>(a)]);
  }
};

std::vector<TensorType> WriteState::infer(const InferArgs& in) const {
  in.expect_count(2);
  in.expect_same_dtype(0, 1);
  const Shape& state = in.shape(0);
  const Shape& update = in.shape(1);
  const int64_t a = in.axis(axis, state.rank());
  Shape like = update;
  if (update.rank() == state.rank()) like[a] = state[a];
  if (!(like == state)) {
    fail(
        "write_state: the update {} does not fit the state {}; all dims except that of axis {} must be equal",
        update.text(), state.text(), a);
  }
  check_slice("write_state", state[a], start, update[a], 1);
  return {in[0]};
}

void WriteState::reference(RefContext& r) const {
  r.out() = r.in(0);
  const View places = slice(View::contiguous(r.in(0).dims), r.in(1).dims);
  std::vector<size_t> all(static_cast<size_t>(r.out().elements()));
  std::iota(all.begin(), all.end(), size_t{0});
  const std::vector<size_t> at = gather_view(all, places);
  visit_both(r.in(1), r.out(), [&](const auto& from, auto& to) {
    for (size_t i = 0; i < at.size(); ++i) to[at[i]] = from[i];
  });
}

void WriteState::lower(Lowering& l) const {
  Operand update = l.in(1);
  const Operand to = l.out().with_view(slice(l.out().view, update.view.dims));
  if (to.view.elements() == 0) return;
  // Part of the state moved within it: no invocation may read what another has overwritten.
  const View::Range read = update.view.range();
  const View::Range written = to.view.range();
  if (update.storage == to.storage && read.begin < written.end && written.begin < read.end) {
    const Operand copy = l.scratch(update.dtype, update.view.dims);
    lower_copy(l, update, copy);
    update = copy;
  }
  lower_copy_into(l, update, to);
}

}  // namespace

Value write_state(Value state, Value update, int64_t axis, Dim start) {
  auto op = std::make_shared<WriteState>();
  op->axis = axis;
  op->start = std::move(start);
  return state.graph().add_value(op, {state, update});
}

namespace ops {
void register_write_state(OpTable& table) {
  table.add<WriteState>(
      {.formula =
           "the state with its entries from start on along axis replaced; it keeps them for the next run",
       .operands = "state update",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"copy_into"},
       .samples = {"write_state(state T[3,17], T[1,17]) {start=1}",
                   "write_state(state T[3,17], T[3,5]) {axis=-1, start=7}",
                   "write_state(state T[257], T[257])", "write_state(state T[257], T[1]) {start=256}",
                   "write_state(state T[4,3], T[0,3]) {start=4}", "write_state(state T[0], T[0])",
                   "write_state(state T[2,3,5], T[2,1,5]) {axis=1, start=2}",
                   "write_state(state T[65541], T[65537]) {start=3}"}});
}
}  // namespace ops

}  // namespace rlx
