#include "ops/rearrange/slice.h"

#include "ops/machinery/op_table.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

void check_slice(std::string_view what, const Dim& size, const Dim& start, const Dim& length, int64_t step) {
  if (step == 0) fail("{}: the step is 0", what);
  const auto negative = [](const Dim& d) { return d.is_static() && d.value() < 0; };
  if (negative(length)) fail("{}: the length is {}", what, length.text());
  // A negative start does not count from the end: a symbolic one that becomes negative is a mistake.
  const Dim last = start + (length - 1) * Dim(step);
  const bool empty = length.is(0);
  // Nothing, backwards, may begin before the first element: an axis of length 0 has no other place.
  const bool inside = empty ? !negative(step < 0 ? start + 1 : start) && !negative(size - start)
                            : !negative(start) && !negative(last) && !negative(size - 1 - start) &&
                                  !negative(size - 1 - last);
  if (inside) return;
  if (empty)
    fail("{}: the start {} is outside the axis, which has length {}", what, start.text(), size.text());
  fail("{}: {} elements from {} on in steps of {} end at {}, outside the axis, which has length {}", what,
       length.text(), start.text(), step, last.text(), size.text());
}

std::vector<TensorType> Slice::infer(const InferArgs& in) const {
  in.expect_count(1);
  std::vector<TensorType> out = {in[0]};
  infer_again(in, out);
  return out;
}

void Slice::infer_again(const InferArgs& in, std::vector<TensorType>& types) const {
  types[0] = in[0];
  Dim& sliced = types[0].shape[in.axis(axis, in.shape(0).rank())];
  check_slice("slice", sliced, start, length, step);
  sliced = length;
}

std::optional<View> Slice::view(const View& input, const Dims& out_dims) const {
  const int64_t a = normal_axis(axis, input.rank());
  const int64_t count = out_dims[static_cast<size_t>(a)];
  return input.slice(a, count == 0 ? 0 : start.value(), count, step);
}

Value slice(Value x, int64_t axis, Dim start, Dim length, int64_t step) {
  auto op = std::make_shared<Slice>();
  op->axis = axis;
  op->start = std::move(start);
  op->length = std::move(length);
  op->step = step;
  return add_node(op, {x});
}

namespace ops {
void register_slice(OpTable& table) {
  table.add<Slice>(
      {.formula = "y[.., j, ..] = x[.., start + j*step, ..] along axis",
       .operands = "x: of any shape",
       .attributes = "axis: along which elements are taken\n"
                     "start: the index of the first element; it cannot count from the end\n"
                     "length: how many elements are taken\n"
                     "step: from one element to the next; negative: backwards",
       .outputs = "y: with this length along the axis",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"view"},
       .samples = {"slice(T[3,17]) {axis=1, start=3, length=7}", "slice(T[3,17]) {axis=0, start=1, length=1}",
                   "slice(T[17,5]) {axis=-2, start=16, length=6, step=-3}",
                   "slice(T[257]) {axis=0, start=1, length=128, step=2}",
                   "slice(T[2,3,5]) {axis=-1, start=4, length=5, step=-1}",
                   "slice(T[0,3]) {axis=0, start=0, length=0}", "slice(T[4,3]) {axis=0, start=4, length=0}",
                   "slice(T[65541]) {axis=0, start=3, length=65537}"}});
}
}  // namespace ops

}  // namespace rlx
