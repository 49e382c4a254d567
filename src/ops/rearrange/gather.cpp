#include "ops/rearrange/gather.h"

#include <algorithm>

#include "ir/reference.h"
#include "kernels/gather.wgsl.h"
#include "kernels/gather_fours.wgsl.h"
#include "kernels/lowering.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<TensorType> Gather::infer(const InferArgs& in) const {
  in.expect_count(2);
  in.expect_dtype(1, is_integer(in.dtype(1)), "an integer type");
  const Shape& table = in.shape(0);
  const int64_t a = in.axis(axis, table.rank());
  // A number of indices that only the run knows may be 0, and is if they are places in the table.
  const Dim wanted = in.shape(1).elements();
  if (table[a].is(0) && wanted.is_static() && !wanted.is(0)) {
    fail("gather: axis {} of the table {} has no entries to take", a, table.text());
  }
  Shape out;
  for (int64_t i = 0; i < a; ++i) out.push_back(table[i]);
  for (const Dim& d : in.shape(1)) out.push_back(d);
  for (int64_t i = a + 1; i < table.rank(); ++i) out.push_back(table[i]);
  return {TensorType{in.dtype(0), out}};
}

namespace {

// The table as [outer, length, inner].
struct Sizes {
  int64_t axis, outer, length, inner;
};

Sizes sizes(int64_t axis, const std::vector<int64_t>& table) {
  const int64_t a = normal_axis(axis, static_cast<int64_t>(table.size()));
  return {a, product({table.begin(), table.begin() + a}), table[static_cast<size_t>(a)],
          product({table.begin() + a + 1, table.end()})};
}

// Whether fours of the axes from `axis` on lie side by side, at multiples of four.
bool in_fours(const View& table, int64_t axis) {
  const auto whole = [](int64_t n) { return n % 4 == 0; };
  const View inner = table.slice_axes(axis, table.rank()).coalesced();
  if (inner.rank() == 0 || inner.strides.back() != 1 || !whole(inner.dims.back()) || !whole(table.offset))
    return false;
  return std::ranges::all_of(inner.strides.begin(), inner.strides.end() - 1, whole) &&
         std::ranges::all_of(table.strides.begin(), table.strides.begin() + axis, whole);
}

}  // namespace

void Gather::reference(RefContext& r) const {
  const RefTensor& table = r.in(0);
  const std::vector<int64_t>& indices = r.in(1).ints;
  const Sizes s = sizes(axis, table.dims);
  if (r.out().elements() == 0) return;
  visit_both(table, r.out(), [&](const auto& from, auto& to) {
    auto out = to.begin();
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t index : indices) {
        const int64_t entry = std::clamp<int64_t>(index < 0 ? index + s.length : index, 0, s.length - 1);
        out = std::copy_n(from.begin() + (o * s.length + entry) * s.inner, s.inner, out);
      }
    }
  });
}

void Gather::lower(Lowering& l) const {
  const Operand& table = l.in(0);
  const Operand& indices = l.in(1);
  if (l.out().view.elements() == 0) return;
  const Sizes s = sizes(axis, table.view.dims);
  const Operand rows = table.with_view(table.view, s.axis + 1);
  const uint32_t count = to_u32(indices.view.elements());
  const uint32_t length = to_u32(to_i32(s.length));
  const uint32_t inner = to_u32(s.inner);
  const bool is_signed = is_signed_integer(indices.dtype);
  if (l.out().dtype != DType::c64 && in_fours(table.view, s.axis + 1) &&
      l.each<kernels::gather_fours>(
          {.table = rows, .indices = indices, .y = l.out()},
          {.count = count, .length = length, .inner = inner, .inverse_inner = 1 / static_cast<float>(inner)},
          l.out().view.elements() / 4, {.SIGNED = is_signed}))
    return;
  l.flat<kernels::gather>({.table = rows, .indices = indices, .y = l.out()},
                          {.count = count, .length = length, .inner = inner}, {.SIGNED = is_signed});
}

Value gather(Value table, Value indices, int64_t axis) {
  auto op = std::make_shared<Gather>();
  op->axis = axis;
  return add_node(op, {table, indices});
}

namespace ops {
void register_gather(OpTable& table) {
  table.add<Gather>(
      {.formula = "y[o, j, k] = table[o, indices[j], k] along axis; negative indices count from the end, "
                  "those outside are "
                  "clamped",
       .operands = "table: what entries are taken from\n"
                   "indices (integer): of any shape; negative ones count from the end, those "
                   "outside are clamped",
       .attributes = "axis: of the table, along which entries lie",
       .outputs = "y: as table, with the axes of indices in place of the axis",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"gather"},
       .samples = {"gather(T[17,5], i32[3] in -17..16)", "gather(T[3,17], i64[2,3] in -30..30) {axis=1}",
                   "gather(T[2,3,5], u32[7] in 0..9) {axis=-2}", "gather(T[257], i8[] in -128..127)",
                   "gather(T[5], u8[3,1] in 0..4)", "gather(T[0,3], i32[0])",
                   "gather(T[3,0], i32[2] in 0..2)", "gather(T[1], i32[257] in -1..0)",
                   "gather(T[65537], i32[33] in 0..65536)", "gather(T[131,257], i32[131] in -131..130)",
                   "gather(T[3,257], i32[30001] in 0..256) {axis=1}",
                   // Entries in fours.
                   "gather(T[33,12], i64[2,5] in -33..32)", "gather(T[3,17,8], u8[300] in 0..16) {axis=1}"}});
}
}  // namespace ops

}  // namespace rlx
