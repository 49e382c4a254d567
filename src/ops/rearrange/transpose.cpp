#include "ops/rearrange/transpose.h"

#include "ops/machinery/op_table.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<int64_t> Transpose::order(int64_t rank) const {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t axis = perm.empty() ? rank - 1 - i : perm[static_cast<size_t>(i)];
    axes.push_back(normal_axis(axis, rank));
  }
  return axes;
}

std::vector<TensorType> Transpose::infer(const InferArgs& in) const {
  in.expect_count(1);
  const Shape& shape = in.shape(0);
  const std::string perm_text = Shape(perm).text();
  if (!perm.empty() && static_cast<int64_t>(perm.size()) != shape.rank()) {
    fail("transpose: perm {} has {} entries, but the input {} has rank {}", perm_text, perm.size(),
         shape.text(), shape.rank());
  }
  for (int64_t axis : perm) in.axis(axis, shape.rank());
  Shape out;
  std::set<int64_t> seen;
  for (int64_t axis : order(shape.rank())) {
    if (!seen.insert(axis).second) fail("transpose: perm {} has the axis {} twice", perm_text, axis);
    out.push_back(shape[axis]);
  }
  return {TensorType{in.dtype(0), out}};
}

std::optional<View> Transpose::view(const View& input, const Dims&) const {
  return input.permute(order(input.rank()));
}

Value transpose(Value x, std::vector<int64_t> perm) {
  auto op = std::make_shared<Transpose>();
  op->perm = std::move(perm);
  return add_node(op, {x});
}

namespace ops {
void register_transpose(OpTable& table) {
  table.add<Transpose>(
      {.formula = "y[c0, c1, ..] = x[..] with coordinate c_i on axis perm[i]",
       .operands = "x: of any shape",
       .attributes = "perm: for each axis of y, which axis of x it is; their reversed order if empty",
       .outputs = "y: x with its axes in another order",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"view"},
       .samples = {"transpose(T[3,17])", "transpose(T[2,3,5]) {perm=[1,2,0]}",
                   "transpose(T[2,3,5,7]) {perm=[0,-1,1,2]}", "transpose(T[])", "transpose(T[257])",
                   "transpose(T[0,3]) {perm=[1,0]}", "transpose(T[1,65537]) {perm=[1,0]}",
                   "transpose(T[257,257]) {perm=[1,0]}", "transpose(T[2,3,2,3,2]) {perm=[4,0,3,1,2]}"}});
}
}  // namespace ops

}  // namespace rlx
