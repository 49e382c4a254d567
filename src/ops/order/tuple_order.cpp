#include "ops/order/tuple_order.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/binder.h"
#include "kernels/gather.wgsl.h"
#include "kernels/merge_tuples.wgsl.h"
#include "kernels/tuple_heads.wgsl.h"
#include "kernels/tuple_ranks.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/rows.h"
#include "ops/order/row_order.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/scatter.h"
#include "ops/reductions/cumulative.h"

namespace rlx {

Operand lower_row_gather(Lowering& l, const Operand& table, const Operand& indices) {
  const int64_t n = indices.view.elements();
  const Operand y = l.scratch(DType::u32, {n});
  l.flat<kernels::gather>({.table = table.with_view(table.view, 1), .indices = indices, .y = y},
                          {.count = to_u32(n), .length = to_u32(to_i32(n)), .inner = 1}, {.SIGNED = false});
  return y;
}

namespace {

// --- Few parts: sorted by the last part first, since each sort keeps the order of equals ---

constexpr int64_t kFewParts = 4;

Operand as_one_row(const Operand& o) {
  const int64_t n = o.view.dims[0];
  return o.with_view({{1, n}, {o.view.strides[0] * n, o.view.strides[0]}, o.view.offset}, 1);
}

// `ranks` is u32[parts, tuples].
LexicographicOrder sort_by_parts(Lowering& l, const Operand& ranks, RankBits bits) {
  const int64_t n = ranks.view.dims[1];
  const auto row = [&] { return l.scratch(DType::u32, {n}); };
  OperandList parts;
  for (int64_t p = 0; p < ranks.view.dims[0]; ++p)
    parts.push_back(ranks.with_view({{n}, {1}, ranks.view.offset + p * n}));
  Operand order;
  for (size_t p = parts.size(); p-- > 0;) {
    const Operand seen = order.present() ? lower_row_gather(l, parts[p], order) : parts[p];
    const Operand next = row();
    lower_order(l, {.op = "sort",
                    .ranks = as_one_row(seen),
                    .rows = 1,
                    .length = n,
                    .count = n,
                    .bits = bits,
                    .y = as_one_row(next)});
    order = order.present() ? lower_row_gather(l, order, next) : next;
  }
  Operand heads;
  for (const Operand& part : parts) {
    const Operand some = row();
    lower_heads(l, lower_row_gather(l, part, order), some);
    if (!heads.present()) {
      heads = some;
      continue;
    }
    const Operand both = row();
    lower_expr(l, Expr::parse("maximum($0,$1)", {DType::u32, DType::u32}), {heads, some}, both);
    heads = both;
  }
  return {order, heads};
}

// --- Many parts: merged ---
//
// Parts are cut into columns of at most kMostParts. The tuples are sorted by each column, at the same time,
// and their ranks there are the parts of the next round, until one column is left. So no invocation goes
// through long tuples alone.

constexpr int64_t kMostParts = 256;

struct Tuples {
  Operand parts;  // u32[columns, tuples, parts of each]

  int64_t columns() const { return parts.view.dims[0]; }
  int64_t count() const { return parts.view.dims[1]; }  // of tuples in a column
  int64_t part_count() const { return parts.view.dims[2]; }
};

Operand slice_columns(const Operand& o, int64_t begin, int64_t length) {
  return o.present() ? o.with_view(o.view.slice(0, begin, length)) : o;
}

Dispatch merge(const Lowering& l, const Tuples& t, const Operand& order, const Operand& y, int64_t width,
               int64_t begin, int64_t length) {
  return l.make<kernels::merge_tuples>({.parts = slice_columns(t.parts, begin, length),
                                        .order = slice_columns(order, begin, length),
                                        .y = slice_columns(y, begin, length)},
                                       {.count = to_u32(length * t.count()),
                                        .tuples = to_u32(t.count()),
                                        .parts = to_u32(t.part_count()),
                                        .width = to_u32(width)},
                                       ceil_div(length * t.count(), int64_t{kernels::merge_tuples::GROUP}));
}

// u32[columns, tuples]
Operand lower_merges(Lowering& l, const Tuples& t) {
  const auto rows = [&] { return l.scratch(DType::u32, {t.columns(), t.count()}); };
  Operand order;
  for (int64_t width = 1; width < t.count(); width *= 2) {
    const Operand next = rows();
    l.split(t.columns(), 1,
            [&](int64_t begin, int64_t length) { return merge(l, t, order, next, width, begin, length); });
    order = next;
  }
  if (order.present()) return order;
  order = rows();
  lower_fill(l, order, 0);  // of a single tuple
  return order;
}

// u32[columns, tuples]
Operand lower_tuple_heads(Lowering& l, const Tuples& t, const Operand& order) {
  const Operand y = l.scratch(DType::u32, {t.columns(), t.count()});
  l.split(t.columns(), 1, [&](int64_t begin, int64_t length) {
    return l.make<kernels::tuple_heads>(
        {.parts = slice_columns(t.parts, begin, length),
         .order = slice_columns(order, begin, length),
         .y = slice_columns(y, begin, length)},
        {.count = to_u32(length * t.count()), .tuples = to_u32(t.count()), .parts = to_u32(t.part_count())},
        ceil_div(length * t.count(), int64_t{kernels::tuple_heads::GROUP}));
  });
  return y;
}

// The ranks of tuples in each column, as tuples of `parts` parts.
Tuples lower_tuple_ranks(Lowering& l, const Tuples& t, const Operand& order, int64_t parts) {
  const Operand heads = lower_tuple_heads(l, t, order);
  const Operand ranks = l.scratch(DType::u32, heads.view.dims);
  lower_scan(l, {.x = heads.with_view(heads.view, 1), .y = ranks.with_view(ranks.view, 1)});
  const Operand y = l.scratch(DType::u32, {ceil_div(t.columns(), parts), t.count(), parts});
  if (t.columns() % parts != 0) lower_fill(l, y, 0);
  l.split(t.columns(), parts, [&](int64_t begin, int64_t length) {
    return l.make<kernels::tuple_ranks>(
        {.ranks = slice_columns(ranks, begin, length),
         .order = slice_columns(order, begin, length),
         .y = slice_columns(y, begin / parts, ceil_div(length, parts))},
        {.count = to_u32(length * t.count()), .tuples = to_u32(t.count()), .parts = to_u32(parts)},
        ceil_div(length * t.count(), int64_t{kernels::tuple_ranks::GROUP}));
  });
  return {y};
}

// How many of the parts make a column: as few columns as can be, all of the same size, of which each can be
// bound. 1: not even two parts can.
int64_t parts_of_column(const Lowering& l, int64_t tuples, int64_t parts) {
  const auto even = [&](int64_t most) { return ceil_div(parts, ceil_div(parts, most)); };
  const auto unplaced = [](int32_t storage, Dims dims) {
    return Operand{.storage = storage, .dtype = DType::u32, .view = View::contiguous(std::move(dims))};
  };
  const auto can_be_bound = [&](int64_t count) {
    const Tuples column{unplaced(0, {1, tuples, count})};
    return fits(merge(l, column, unplaced(1, {1, tuples}), unplaced(2, {1, tuples}), 1, 0, 1), l.caps());
  };
  int64_t most = std::min(parts, kMostParts);
  while (most > 1 && !can_be_bound(even(most))) most = ceil_div(most, 2);
  return most == 1 ? 1 : even(most);
}

}  // namespace

LexicographicOrder lower_lexicographic_order(Lowering& l, const Operand& x,
                                             const std::vector<int64_t>& tuple_axes) {
  const Operand by_part = as_rows(x, tuple_axes);
  const int64_t n = row_length(by_part);
  const int64_t parts = row_count(by_part);
  if (parts == 0) {  // nothing in which they differ
    const Operand same = l.scratch(DType::u32, {1, n});
    lower_fill(l, same, 0);
    return sort_by_parts(l, same, {0, 1});
  }
  int64_t chunk = parts <= kFewParts ? 1 : parts_of_column(l, n, parts);
  if (chunk == 1) return sort_by_parts(l, lower_ranks(l, by_part, false, n), rank_bits(x.dtype));
  std::vector<int64_t> part_axes;
  for (int64_t axis = 0; axis < x.view.rank(); ++axis) {
    if (!std::ranges::contains(tuple_axes, axis)) part_axes.push_back(axis);
  }
  int64_t columns = ceil_div(parts, chunk);
  const Operand ranks = lower_ranks(l, as_rows(x, part_axes), false, columns * chunk);
  Tuples tuples{ranks.with_view(View::contiguous({n, columns, chunk}).permute({1, 0, 2}))};
  if (columns > 1) tuples.parts = lower_contiguous(l, tuples.parts);
  while (true) {
    const Operand order = lower_merges(l, tuples);
    const auto flat = [&](const Operand& o) { return o.with_view(View::contiguous({n})); };
    if (columns == 1) return {flat(order), flat(lower_tuple_heads(l, tuples, order))};
    chunk = parts_of_column(l, n, columns);
    tuples = lower_tuple_ranks(l, tuples, order, chunk);
    columns = tuples.columns();
  }
}

}  // namespace rlx
