#include "ops/rearrange/split.h"

#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<TensorType> Split::infer(const InferArgs& in) const {
  in.expect_count(1);
  const Shape& shape = in.shape(0);
  const int64_t a = in.axis(axis, shape.rank());
  if (sizes.empty()) fail("split: needs at least one size");
  std::vector<TensorType> out;
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0) fail("split: the sizes {} include the negative {}", Shape(sizes).text(), size);
    if (__builtin_add_overflow(sum, size, &sum))
      fail("split: the sum of the sizes {} does not fit in 64 bits", excerpt(Shape(sizes).text()));
    Shape part = shape;
    part[a] = size;
    out.push_back({in.dtype(0), part});
  }
  if (shape[a].is_static() && !shape[a].is(sum)) {
    fail("split: the sizes {} add up to {}, but axis {} of {} has length {}", Shape(sizes).text(), sum, a,
         shape.text(), shape[a].text());
  }
  return out;
}

namespace {

// The slices of x in order.
std::vector<View> slices(const Split& op, const View& x) {
  std::vector<View> out;
  const int64_t a = op.axis < 0 ? op.axis + x.rank() : op.axis;
  int64_t begin = 0;
  for (int64_t size : op.sizes) {
    out.push_back(x.slice(a, begin, size));
    begin += size;
  }
  return out;
}

}  // namespace

void Split::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const std::vector<View> views = slices(*this, View::contiguous(x.dims));
  for (size_t i = 0; i < views.size(); ++i) {
    visit_both(x, r.out(static_cast<int64_t>(i)),
               [&](const auto& from, auto& to) { to = gather_view(from, views[i]); });
  }
}

void Split::lower(Lowering& l) const {
  const std::vector<View> views = slices(*this, l.in(0).view);
  for (size_t i = 0; i < views.size(); ++i) {
    lower_copy(l, l.in(0).with_view(views[i]), l.out(static_cast<int64_t>(i)));
  }
}

std::vector<Value> split(Value x, int64_t axis, std::vector<int64_t> sizes) {
  auto op = std::make_shared<Split>();
  op->axis = axis;
  op->sizes = std::move(sizes);
  const auto count = static_cast<int32_t>(op->sizes.size());
  const ValueId first = add_node(op, {x}).id();
  std::vector<Value> parts;
  for (int32_t o = 0; o < count; ++o) parts.push_back(x.graph().value({first.node, o}));
  return parts;
}

namespace ops {
void register_split(OpTable& table) {
  table.add<Split>(
      {.formula = "consecutive slices of the given sizes along axis",
       .operands = "x: what is cut",
       .attributes = "axis: along which x is cut\n"
                     "sizes: the lengths of the parts, which add up to that of the axis",
       .outputs = "parts...: one for each size, in their order",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"copy"},
       .samples = {"split(T[3,17]) {axis=1, sizes=[1,5,11]}", "split(T[17,3]) {axis=-2, sizes=[17]}",
                   "split(T[257]) {axis=0, sizes=[3,0,254]}", "split(T[2,3,5]) {axis=-1, sizes=[2,3]}",
                   "split(T[0,3]) {axis=1, sizes=[1,2]}", "split(T[0]) {axis=0, sizes=[0]}",
                   "split(T[65541]) {axis=0, sizes=[3,65537,1]}"}});
}
}  // namespace ops

}  // namespace rlx
