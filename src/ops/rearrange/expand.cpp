#include "ops/rearrange/expand.h"

#include "ops/machinery/op_table.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<TensorType> Expand::infer(const InferArgs& in) const {
  in.expect_count(1);
  const Shape& from = in.shape(0);
  if (from.rank() > shape.rank()) {
    fail("expand: the input {} has more axes than the target {}", from.text(), shape.text());
  }
  Shape out = shape;
  const int64_t fresh = shape.rank() - from.rank();  // leading axes that the input does not have
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    if (axis < fresh) {
      if (shape[axis].is(-1))
        fail("expand: axis {} of {} is -1, but the input {} has no such axis", axis, shape.text(),
             from.text());
      continue;
    }
    const Dim& have = from[axis - fresh];
    if (shape[axis].is(-1)) out[axis] = have;
    if (have.is(1) || have == out[axis]) continue;
    fail(
        "expand: axis {} of the input {} has length {}; it cannot become {} (only an axis of length 1 "
        "repeats)",
        axis - fresh, from.text(), have.text(), out[axis].text());
  }
  return {TensorType{in.dtype(0), out}};
}

std::optional<View> Expand::view(const View& input, const Dims& out_dims) const {
  return input.broadcast_to(out_dims);
}

Value expand(Value x, Shape shape) {
  auto op = std::make_shared<Expand>();
  op->shape = std::move(shape);
  return add_node(op, {x});
}

namespace ops {
void register_expand(OpTable& table) {
  table.add<Expand>(
      {.formula = "x repeated along new leading axes and axes of length 1; -1 keeps a dim",
       .operands = "x: what is repeated",
       .attributes = "shape: that of the result; -1 keeps the size of an axis",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"view"},
       .samples = {"expand(T[3,1]) {shape=[3,17]}", "expand(T[17]) {shape=[2,3,17]}",
                   "expand(T[]) {shape=[257]}", "expand(T[2,1,5]) {shape=[4,-1,3,-1]}",
                   "expand(T[1,3]) {shape=[0,3]}", "expand(T[]) {shape=[]}",
                   "expand(T[1,257]) {shape=[257,257]}", "expand(T[65537]) {shape=[2,65537]}"}});
}
}  // namespace ops

}  // namespace rlx
