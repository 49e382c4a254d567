#include "ir/reference.h"
#include "kernels/lowering.h"
#include "kernels/unpool.wgsl.h"
#include "kernels/unpool_mark.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/pooling.h"

namespace rlx {
namespace {

// max_unpool(x, indices): zeros [batch, channels, size..] with x[i] at indices[i], which counts over all of
// the result or over the spatial axes of the plane of x[i]. The last of those with the same index stays; an
// index outside counts for nothing.
struct MaxUnpool final : OpOf<MaxUnpool> {
  static constexpr auto kName = "max_unpool";
  Shape size;
  PoolIndices indices = PoolIndices::plane;

  void visit_attributes(AttributeVisitor& v) override {
    v("size", size);
    v.choice("indices", indices, {"none", "tensor", "plane"}, std::optional(PoolIndices::plane));
  }
  bool types_numbers(int64_t input) const override { return input == 0; }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == 1 ? values_between(0, size.elements() - 1) : std::nullopt;
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
};

std::vector<TensorType> MaxUnpool::infer(const InferArgs& in) const {
  in.expect_count(2);
  in.expect_dtype(1, is_integer(in.dtype(1)), "an integer type");
  const Shape& x = in.shape(0);
  if (indices == PoolIndices::none) fail("max_unpool: `indices` must be tensor or plane");
  if (!(in.shape(1) == x))
    fail("max_unpool: x has the shape {} and the indices {}; they must be equal", x.text(),
         in.shape(1).text());
  if (x.rank() < 3 || size.rank() != x.rank() - 2)
    fail("max_unpool: `size` {} must have a number for each spatial axis of x {}", size.text(), x.text());
  Shape y{x[0], x[1]};
  for (const Dim& d : size) y.push_back(d);
  return {TensorType{in.dtype(0), y}};
}

// Indices of plane k count from k * shift on and are below `limit`.
struct Planes {
  int64_t elements, shift, limit;
};
Planes planes_of(PoolIndices kind, const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
  const int64_t out = product({y.begin() + 2, y.end()});
  const int64_t in = product({x.begin() + 2, x.end()});
  return kind == PoolIndices::plane ? Planes{in, out, out} : Planes{in, 0, product(y)};
}

void MaxUnpool::reference(RefContext& r) const {
  const Planes planes = planes_of(indices, r.in(0).dims, r.out().dims);
  visit_both(r.in(0), r.out(), [&](const auto& from, auto& to) {
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t index = r.in(1).ints[i];
      if (index < 0 || index >= planes.limit) continue;
      to[static_cast<size_t>(static_cast<int64_t>(i) / planes.elements * planes.shift + index)] = from[i];
    }
  });
}

void MaxUnpool::lower(Lowering& l) const {
  const Operand& x = l.in(0);
  const Operand& y = l.out();
  if (y.view.elements() == 0) return;
  const Operand source = l.scratch(DType::i32, y.view.dims);
  lower_fill(l, source, -1);
  if (const int64_t count = x.view.elements(); count > 0) {
    const Planes planes = planes_of(indices, x.view.dims, y.view.dims);
    emit_in_windows(l,
                    l.make<kernels::unpool_mark>({.indices = l.in(1), .source = source},
                                                 {.count = to_u32(to_i32(count)),
                                                  .plane = to_u32(planes.elements),
                                                  .shift = to_u32(planes.shift),
                                                  .limit = to_u32(to_i32(planes.limit))},
                                                 ceil_div(count, int64_t{kernels::unpool_mark::GROUP})),
                    0, 1);
  }
  l.flat<kernels::unpool>({.source = source, .x = x, .y = y}, {});
}

}  // namespace

Value max_unpool(Value x, Value indices, Shape size, PoolIndices kind) {
  auto op = std::make_shared<MaxUnpool>();
  op->size = std::move(size);
  op->indices = kind;
  return add_node(op, {x, indices});
}

namespace ops {
void register_max_unpool(OpTable& table) {
  table.add<MaxUnpool>(
      {.formula = "zeros with x[i] at indices[i] of the tensor or of its plane; the last of equal indices",
       .operands = "x: [batch, channels, spatial..]\n"
                   "indices (integer): as x, where its elements go; those outside go nowhere",
       .attributes = "size: the spatial sizes of the result\n"
                     "indices: what they count over: all of the result, or the spatial axes alone",
       .outputs = "y: [batch, channels, size..], zero where nothing went",
       .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
       .variants = {"unpool"},
       .samples = {"max_unpool(T[2,3,3,4], i64[2,3,3,4] in 0..47) {size=[6,8]}",
                   "max_unpool(T[1,2,5], i32[1,2,5] in 0..25) {size=[11], indices=\"tensor\"}",
                   "max_unpool(T[1,3,2,2,2], i64[1,3,2,2,2] in 0..63) {size=[4,4,4]}",
                   "max_unpool(T[1,2,3], i64[1,2,3] in -3..20) {size=[5]}",
                   "max_unpool(T[2,0,3], i64[2,0,3]) {size=[6]}",
                   "max_unpool(T[1,2,0], i64[1,2,0]) {size=[5]}",
                   "max_unpool(T[1,17,60,65], i64[1,17,60,65] in 0..15599) {size=[120,130]}"}});
}
}  // namespace ops

}  // namespace rlx
