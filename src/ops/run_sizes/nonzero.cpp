#include "ops/run_sizes/nonzero.h"

#include <algorithm>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lib.wgsl.h"
#include "kernels/lowering.h"
#include "kernels/nonzero.wgsl.h"
#include "kernels/nonzero_count.wgsl.h"
#include "kernels/nonzero_offsets.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/graph.h"
#include "rlx/ops/run_sizes.h"

namespace rlx {

std::vector<TensorType> NonZero::infer(const InferArgs& in) const {
  in.expect_count(1);
  if (count && !count->as_symbol() && !(count->is_static() && count->value() >= 0))
    fail("nonzero: the attribute count is {}; it must be a symbol, or the room for indices", count->text());
  const Shape& x = in.shape(0);
  return {TensorType{DType::i64, {x.rank(), count ? *count : x.elements()}}, TensorType{DType::i32, {}}};
}

std::optional<RunSize> NonZero::run_size(std::span<const TensorType> inputs) const {
  if (!count) return std::nullopt;
  return RunSize{*count, inputs[0].shape.elements()};
}

void NonZero::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  std::vector<int64_t> found;
  x.visit([&](const auto& values) {
    using T = std::ranges::range_value_t<decltype(values)>;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!(values[i] == T(0))) found.push_back(static_cast<int64_t>(i));
    }
  });
  const std::vector<int64_t> strides = row_major_strides(x.dims);
  const int64_t all = std::ssize(found);
  const int64_t room = !count ? x.elements() : count->is_static() ? count->value() : all;
  const auto rank = static_cast<int64_t>(x.dims.size());
  r.out(0) = RefTensor::zeros(DType::i64, {rank, room});
  for (int64_t axis = 0; axis < rank; ++axis) {
    const auto a = static_cast<size_t>(axis);
    for (int64_t i = 0; i < std::min(all, room); ++i) {
      r.out(0).ints[static_cast<size_t>(axis * room + i)] =
          found[static_cast<size_t>(i)] / strides[a] % x.dims[a];
    }
  }
  r.out(1).ints[0] = all;
}

namespace {

constexpr int64_t kBlock = kernels::lib::blocks::BLOCK;

Operand slice_of(const Operand& o, int64_t begin, int64_t length) {
  return o.with_view(o.view.slice(0, begin, length));
}

// Elements of blocks [first, first + count) of x.
Operand blocks_of(const Operand& x, int64_t first, int64_t count) {
  const int64_t begin = first * kBlock;
  return slice_of(x, begin, std::min(count * kBlock, x.view.dims[0] - begin));
}

// One bool for each element of x, in one row.
Operand lower_flags(Lowering& l, const Operand& x) {
  const int64_t n = x.view.elements();
  if (x.dtype == DType::bool_) {
    if (x.view.is_contiguous()) return x.with_view({{n}, {1}, x.view.offset});
    return lower_contiguous(l, x).with_view(View::contiguous({n}));
  }
  const Operand flags = l.scratch(DType::bool_, x.view.dims);
  lower_expr(l, Expr::parse("not_equal($0,0)", {x.dtype}), {x}, flags);
  return flags.with_view(View::contiguous({n}));
}

// The sum of each block of x.
Operand lower_sums(Lowering& l, const Operand& x) {
  const int64_t blocks = ceil_div(x.view.dims[0], kBlock);
  const Operand sums = l.scratch(DType::i32, {blocks});
  l.split(blocks, 1, [&](int64_t first, int64_t count) {
    const Operand part = blocks_of(x, first, count);
    return l.make<kernels::nonzero_count>({.x = part, .y = slice_of(sums, first, count)},
                                          {.elements = to_u32(part.view.dims[0])}, count);
  });
  return sums;
}

// The sum of all x before each element; `total` becomes the sum of all. Sums of blocks, sums of those and so
// on, until there is one block; then down again. No workgroup waits for another one.
Operand lower_offsets(Lowering& l, const Operand& x, const Operand& total) {
  const int64_t n = x.view.dims[0];
  const int64_t blocks = ceil_div(n, kBlock);
  const Operand base = blocks > 1 ? lower_offsets(l, lower_sums(l, x), total) : Operand{};
  const Operand y = l.scratch(DType::i32, {n});
  l.split(blocks, 1, [&](int64_t first, int64_t count) {
    const Operand part = blocks_of(x, first, count);
    return l.make<kernels::nonzero_offsets>({.x = part,
                                             .base = blocks > 1 ? slice_of(base, first, count) : Operand{},
                                             .y = blocks_of(y, first, count),
                                             .total = blocks > 1 ? Operand{} : total},
                                            {.elements = to_u32(part.view.dims[0])}, count);
  });
  return y;
}

// Writes the indices along one axis.
void lower_row(Lowering& l, const Operand& flags, const Operand& offsets, const Operand& y, int64_t inner,
               int64_t length) {
  const int64_t capacity = y.view.dims[0];
  const auto part = [&](int64_t room, int64_t from, int64_t first, int64_t count) {
    const Operand set = blocks_of(flags, first, count);
    Operand to = y;
    const int64_t begin = y.view.offset + from;
    if (room < capacity) to.window = {begin, std::min(begin + room, y.view.offset + capacity)};
    return l.make<kernels::nonzero>({.flags = set, .offsets = slice_of(offsets, first, count), .y = to},
                                    {.elements = to_u32(set.view.dims[0]),
                                     .index = to_u32(first * kBlock),
                                     .capacity = to_u32(capacity),
                                     .inner = to_u32(inner),
                                     .length = to_u32(length)},
                                    count);
  };
  // An index may go anywhere in the row: one that cannot be bound at once is written in several rounds.
  constexpr int64_t kGrain = kBindingAlignment / 4;
  int64_t room = capacity;
  while (room > kGrain && !fits(part(room, 0, 0, 1), l.caps())) room = round_up(ceil_div(room, 2), kGrain);
  for (int64_t from = 0; from < capacity; from += room) {
    l.split(offsets.view.dims[0], 1,
            [&](int64_t first, int64_t count) { return part(room, from, first, count); });
  }
}

}  // namespace

void NonZero::lower(Lowering& l) const {
  const Operand& x = l.in(0);
  const Operand& indices = l.out(0);
  if (indices.view.elements() > 0) lower_fill(l, indices, 0);
  if (x.view.elements() == 0) {
    lower_fill(l, l.out(1), 0);
    return;
  }
  const Operand flags = lower_flags(l, x);
  const Operand offsets = lower_offsets(l, lower_sums(l, flags), l.out(1));
  if (indices.view.elements() == 0) return;
  const std::vector<int64_t> strides = row_major_strides(x.view.dims);
  const int64_t capacity = indices.view.dims[1];
  for (int64_t axis = 0; axis < x.view.rank(); ++axis) {
    const View row{{capacity}, {1}, indices.view.offset + axis * capacity};
    lower_row(l, flags, offsets, indices.with_view(row), strides[static_cast<size_t>(axis)],
              x.view.dims[static_cast<size_t>(axis)]);
  }
}

FoundIndices nonzero(Value x, std::string symbol, int64_t capacity) {
  auto op = std::make_shared<NonZero>();
  if (!symbol.empty()) {
    op->count = Dim::symbol(symbol);
    if (capacity > 0) x.graph().set_capacity(std::move(symbol), capacity);
  } else if (capacity > 0) {
    op->count = Dim(capacity);
  }
  return named_outputs<FoundIndices>(add_node(op, {x}));
}

namespace ops {
void register_nonzero(OpTable& table) {
  table.add<NonZero>(
      {.formula = "the indices [rank, n] of the n elements that are not zero, in row-major order, and n",
       .operands = "x (any): the elements to test, of any shape",
       .attributes = "count: how many columns indices has, or a symbol for as many as the run finds; if not "
                     "given, as many as x has elements",
       .outputs = "indices (i64): [rank of x, columns], with zeros after the last\n"
                  "count (i32): [], how many elements are not zero, even if there are fewer columns",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"nonzero"},
       .samples = {"nonzero(T[3,17] in 0..1)", "nonzero(T[1])", "nonzero(T[])", "nonzero(bool[257])",
                   "nonzero(i64[2,3,5,7] in -1..1)", "nonzero(T[0,3])", "nonzero(i32[0]) {count=3}",
                   "nonzero(i8[257,3] in 0..3) {count=100}", "nonzero(u8[17] in 0..1) {count=40}",
                   "nonzero(u32[65537] in 0..1)", "nonzero(T[131,257])", "nonzero(f16[2049] in 0..0)",
                   "nonzero(bool[1031,1031])", "nonzero(i32[300007] in 0..1) {count=200000}"}});
}
}  // namespace ops

}  // namespace rlx
