#include "ops/rearrange/scatter.h"

#include <bit>
#include <cmath>

#include "kernels/binder.h"
#include "kernels/copy.wgsl.h"
#include "kernels/gather.wgsl.h"
#include "kernels/heads.wgsl.h"
#include "kernels/scatter_atomic.wgsl.h"
#include "kernels/scatter_keys.wgsl.h"
#include "kernels/scatter_last.wgsl.h"
#include "kernels/scatter_pick.wgsl.h"
#include "kernels/scatter_runs.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/rows.h"
#include "ops/order/row_order.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

void check_scatter(const InferArgs& in, ScatterReduction reduction) {
  in.expect_count(3);
  in.expect_dtype(1, is_integer(in.dtype(1)), "an integer type");
  in.expect_same_dtype(0, 2);
  const bool joins = reduction != ScatterReduction::none;
  in.expect_dtype(0, !joins || is_float(in.dtype(0)) || is_integer(in.dtype(0)),
                  "a float or integer type, since updates are joined");
  if (in.shape(0).elements().is(0) && !in.shape(2).elements().is(0))
    fail("{}: x {} has no elements for the updates {}", in.op(), in.shape(0).text(), in.shape(2).text());
}

// All updates may go to the same element.
Tolerance scatter_tolerance(ScatterReduction reduction, const TensorType& updates) {
  const auto n = static_cast<double>(updates.shape.elements().value());
  constexpr double magnitude = 2;  // of the sweep's inputs
  switch (reduction) {
    case ScatterReduction::add:
      return {.ulps = 1, .terms = n, .scale = magnitude * std::sqrt(n)};
    case ScatterReduction::mul:
      return {.ulps = 1, .terms = n};
    default:
      return {.ulps = 0};
  }
}

namespace {

template <class T>
T joined(ScatterReduction reduction, T a, T b) {
  if (reduction == ScatterReduction::none) return b;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
  }
  if constexpr (std::is_arithmetic_v<T>) {
    switch (reduction) {
      case ScatterReduction::none:
        return b;
      case ScatterReduction::add:
        return a + b;
      case ScatterReduction::mul:
        return a * b;
      case ScatterReduction::max:
        return std::max(a, b);
      case ScatterReduction::min:
        return std::min(a, b);
    }
  }
  fail(ErrorKind::internal, "complex updates are not joined");
}

}  // namespace

void reference_scatter(RefContext& r, ScatterReduction reduction, const std::vector<int64_t>& slots,
                       int64_t inner) {
  r.out() = r.in(0);
  const DType dtype = r.out().dtype;
  visit_both(r.in(2), r.out(), [&](const auto& updates, auto& out) {
    for (size_t i = 0; i < updates.size(); ++i) {
      const int64_t u = static_cast<int64_t>(i) / inner;
      auto& to =
          out[static_cast<size_t>(slots[static_cast<size_t>(u)] * inner + static_cast<int64_t>(i) % inner)];
      to = joined(reduction, to, updates[i]);
      if constexpr (std::is_integral_v<std::remove_reference_t<decltype(to)>>) to = wrapped(to, dtype);
    }
  });
}

void split_for_windows(Lowering& l, int64_t extent, const Operand& y, const WindowMaker& make) {
  constexpr int64_t kGrain = kBindingAlignment / 4;
  const View::Range all = y.view.range();
  const int64_t size = all.end - all.begin;
  int64_t room = size;
  const auto window = [&](int64_t from) {
    Operand some = y;
    if (room < size) some.window = {all.begin + from, std::min(all.begin + from + room, all.end)};
    return some;
  };
  while (room > kGrain && !fits(make(0, 1, window(0)), l.caps())) room = round_up(ceil_div(room, 2), kGrain);
  for (int64_t from = 0; from < size; from += room) {
    const Operand to = window(from);
    l.split(extent, 1, [&](int64_t begin, int64_t length) { return make(begin, length, to); });
  }
}

void lower_last(Lowering& l, const Operand& slots, const Operand& y) {
  lower_fill(l, y, -1);
  const int64_t count = slots.view.elements();
  split_for_windows(l, count, y, [&](int64_t begin, int64_t length, const Operand& to) {
    return l.make<kernels::scatter_last>(
        {.slots = slots.with_view(slots.view.slice(0, begin, length)), .y = to},
        {.begin = to_u32(begin), .count = to_u32(length)},
        ceil_div(length, int64_t{kernels::scatter_last::GROUP}));
  });
}

void lower_heads(Lowering& l, const Operand& x, const Operand& y) {
  l.split(x.view.dims[0], kBindingAlignment / 4, [&](int64_t begin, int64_t length) {
    const int64_t skip = begin > 0 ? 1 : 0;
    return l.make<kernels::heads>({.x = x.with_view(x.view.slice(0, begin - skip, length + skip)),
                                   .y = y.with_view(y.view.slice(0, begin, length))},
                                  {.count = to_u32(length), .skip = to_u32(skip)},
                                  ceil_div(length, int64_t{kernels::heads::GROUP}));
  });
}

namespace {

// The last update of each slice counts.
void lower_replace(Lowering& l, const ScatterProblem& p) {
  const Operand last = l.scratch(DType::i32, {p.y.view.elements() / p.inner});
  lower_last(l, p.slots, last);
  l.flat<kernels::scatter_pick>({.x = p.x, .last = last, .updates = p.updates, .y = p.y},
                                {.inner = to_u32(p.inner)});
}

// Integer sums and all extremes come out the same in any order; sums of floats nearly.
void lower_atomic(Lowering& l, const ScatterProblem& p) {
  const bool keys = is_float(p.x.dtype) && p.reduction != ScatterReduction::add;
  const bool largest = p.reduction == ScatterReduction::max;
  const DType type = keys ? DType::u32 : accumulator(p.x.dtype);
  const auto convert = [&](const Operand& from, const Operand& to, bool back) {
    if (keys) {
      l.flat<kernels::scatter_keys>({.x = from, .y = to}, {}, {.BACK = back, .NAN_LAST = largest});
    } else {
      l.flat<kernels::copy>({.x = from, .y = to}, {});
    }
  };
  const bool in_y = p.y.dtype == type;
  const Operand sums = in_y ? p.y : l.scratch(type, p.y.view.dims);
  convert(p.x, sums, false);
  const Dims by_slot = {p.slots.view.dims[0], p.inner};
  const std::optional<View> flat = p.updates.view.reshape(by_slot);
  const bool as_they_are = p.updates.dtype == type && flat;
  const Operand updates = as_they_are ? p.updates.with_view(*flat) : l.scratch(type, by_slot);
  if (!as_they_are) convert(p.updates, updates, false);
  const uint32_t kind = p.reduction == ScatterReduction::add ? kernels::scatter_atomic::ADD
                        : largest                            ? kernels::scatter_atomic::MAX
                                                             : 2;
  const Operand overflow = kind == kernels::scatter_atomic::ADD ? l.overflow(type) : Operand{};
  split_for_windows(l, p.slots.view.dims[0], sums, [&](int64_t begin, int64_t length, const Operand& to) {
    const auto part = [&](const Operand& o) { return o.with_view(o.view.slice(0, begin, length)); };
    return l.make<kernels::scatter_atomic>(
        {.slots = part(p.slots), .updates = part(updates), .y = to, .overflow = overflow},
        {.count = to_u32(length * p.inner), .inner = to_u32(p.inner)},
        ceil_div(length * p.inner, int64_t{kernels::scatter_atomic::GROUP}), {.KIND = kind});
  });
  if (!in_y) convert(sums, p.y, true);
}

// Updates in the order of their slots.
struct Runs {
  Operand slots;    // u32[count]
  Operand order;    // u32[count]: where their updates lie; absent if those are in order
  Operand updates;  // axes of count, then `inner` elements
};

// Joins them with y, the parts of runs that several blocks have in turn: each level has a thirty-second as
// many.
void lower_runs(Lowering& l, const ScatterProblem& p, const Runs& runs) {
  constexpr auto kBlock = int64_t{kernels::scatter_runs::BLOCK};
  const int64_t count = runs.slots.view.dims[0];
  const int64_t blocks = ceil_div(count, kBlock);
  const bool several = blocks > 1;
  const Operand part_slots = several ? l.scratch(DType::u32, {2 * blocks}) : Operand{};
  Operand parts = several ? l.scratch(accumulator(p.y.dtype), {2 * blocks, p.inner}) : Operand{};
  if (several) parts.outer_rank = 1;
  const auto make = [&](int64_t begin, int64_t length, const Operand& y) {
    const int64_t first = begin * kBlock;
    const int64_t some = std::min(length * kBlock, count - first);
    const int64_t skip = first > 0 ? 1 : 0;
    const int64_t more = first + some < count ? 1 : 0;
    const auto cut = [](const Operand& o, int64_t from, int64_t size) {
      return o.present() ? o.with_view(o.view.slice(0, from, size), o.outer_rank) : o;
    };
    OperandList operands =
        kernels::scatter_runs::Operands{
            .slots = cut(runs.slots, first - skip, skip + some + more),
            .order = cut(runs.order, first, some),
            .updates = runs.order.present() ? runs.updates : cut(runs.updates, first, some),
            .y = y,
            .part_slots = cut(part_slots, 2 * begin, 2 * length),
            .parts = cut(parts, 2 * begin, 2 * length),
            .overflow = l.overflow(p.y.dtype)}
            .list();
    const kernels::scatter_runs::Params params{.blocks = to_u32(length),
                                               .count = to_u32(some),
                                               .inner = to_u32(p.inner),
                                               .skip = to_u32(skip),
                                               .more = to_u32(more)};
    const KernelPtr& kernel = kernels::scatter_runs::kernel();
    const bool four = use_four(*kernel, operands) && p.inner % 4 == 0;
    for (Operand& o : operands) o.x4 = four;
    const kernels::scatter_runs::Spec spec{.PRODUCT = p.reduction == ScatterReduction::mul, .FOUR = four};
    return l.make(kernel, std::move(operands), std::as_bytes(std::span(&params, 1)),
                  ceil_div(length * p.inner / (four ? 4 : 1), int64_t{kernels::scatter_runs::GROUP}),
                  spec.list());
  };
  const int64_t slices = p.y.view.elements() / p.inner;
  split_for_windows(l, blocks, p.y.with_view({{slices, p.inner}, {p.inner, 1}, p.y.view.offset}, 1), make);
  if (several) lower_runs(l, p, {.slots = part_slots, .order = {}, .updates = parts});
}

// What depends on the order: the updates are sorted by slices, which brings those of a slice together in
// theirs.
void lower_in_order(Lowering& l, const ScatterProblem& p) {
  const int64_t count = p.slots.view.dims[0];
  const int64_t slices = p.y.view.elements() / p.inner;
  const Operand order = l.scratch(DType::u32, {count});
  const auto row = [&](const Operand& o) { return o.with_view(View::contiguous({1, count}), 1); };
  lower_order(l, {.op = "sort",
                  .ranks = row(p.slots),
                  .rows = 1,
                  .length = count,
                  .count = count,
                  .bits = {0, std::bit_width(static_cast<uint64_t>(slices - 1))},
                  .y = row(order)});
  const auto gather = [&](const Operand& table, int64_t inner, const Operand& y) {
    l.flat<kernels::gather>({.table = table, .indices = order, .y = y},
                            {.count = to_u32(count), .length = to_u32(to_i32(count)), .inner = to_u32(inner)},
                            {.SIGNED = false});
  };
  const Operand slots = l.scratch(DType::u32, {count});
  gather(p.slots.with_view(p.slots.view, 1), 1, slots);
  lower_copy(l, p.x, p.y);
  // Each update is read where it is, if all of them can be bound.
  const auto most = static_cast<int64_t>(l.caps().max_binding_bytes);
  if (reach_bytes(p.updates) <= most) return lower_runs(l, p, {slots, order, p.updates});
  const Operand updates = l.scratch(p.updates.dtype, {count, p.inner});
  gather(p.updates, p.inner, updates);
  lower_runs(l, p, {slots, {}, updates.with_view(updates.view, 1)});
}

}  // namespace

void lower_scatter(Lowering& l, const ScatterProblem& p) {
  if (p.y.view.elements() == 0) return;
  // There is no atomic product.
  const bool in_order =
      p.reduction == ScatterReduction::mul ||
      (p.reduction == ScatterReduction::add && is_float(p.x.dtype) && l.target().deterministic);
  if (p.updates.view.elements() == 0) {
    l.flat<kernels::copy>({.x = p.x, .y = p.y}, {});
  } else if (p.reduction == ScatterReduction::none) {
    lower_replace(l, p);
  } else if (in_order) {
    lower_in_order(l, p);
  } else {
    lower_atomic(l, p);
  }
}

}  // namespace rlx
