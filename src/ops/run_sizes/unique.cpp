// The different elements of a tensor, or the different slices along an axis.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/reference.h"
#include "kernels/gather.wgsl.h"
#include "kernels/put_at.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/machinery/rows.h"
#include "ops/order/tuple_order.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/scatter.h"
#include "ops/reductions/cumulative.h"
#include "rlx/graph.h"
#include "rlx/ops/run_sizes.h"

namespace rlx {
namespace {

// `count` is a symbol for the number of different ones, the room that there is for them, or not given: room
// for all, as for nonzero.
struct Unique final : OpOf<Unique> {
  static constexpr auto kName = "unique";
  std::optional<int64_t> axis;  // none: of elements
  bool sorted = true;
  std::optional<Dim> count;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis);
    v("sorted", sorted, true);
    v("count", count);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, is_float(in.dtype(0)) || is_integer(in.dtype(0)), "a float or integer type");
    if (count && !count->as_symbol() && !(count->is_static() && count->value() >= 0))
      fail("unique: the attribute count is {}; it must be a symbol, or the room for elements", count->text());
    const Shape& x = in.shape(0);
    if (axis) in.axis(*axis, x.rank());
    const Dim all = axis ? x[normal_axis(*axis, x.rank())] : x.elements();
    const Dim room = count ? *count : all;
    Shape values = axis ? x : Shape{room};
    if (axis) values[normal_axis(*axis, x.rank())] = room;
    return {{in.dtype(0), values},
            {DType::i64, {room}},
            {DType::i64, {all}},
            {DType::i64, {room}},
            {DType::i32, {}}};
  }

  std::optional<RunSize> run_size(std::span<const TensorType> inputs) const override {
    if (!count) return std::nullopt;
    const Shape& x = inputs[0].shape;
    return RunSize{*count, axis ? x[normal_axis(*axis, x.rank())] : x.elements()};
  }

  // The tuples compared: [tuples, parts of each], a view of a tensor in row-major order.
  View tuples(const std::vector<int64_t>& dims) const {
    const View all = View::contiguous(dims);
    if (!axis) return View::contiguous({all.elements(), 1});
    const auto along = static_cast<size_t>(normal_axis(*axis, all.rank()));
    std::vector<int64_t> order = {static_cast<int64_t>(along)};
    for (int64_t a = 0; a < all.rank(); ++a) {
      if (a != static_cast<int64_t>(along)) order.push_back(a);
    }
    return all.permute(order);
  }

  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

// --- Reference ---

template <class T>
int compare_parts(const T* a, const T* b, size_t parts) {
  const auto is_nan = [](T v) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(v);
    return false;
  };
  for (size_t i = 0; i < parts; ++i) {
    if (is_nan(a[i]) && is_nan(b[i])) continue;
    if (is_nan(b[i]) || a[i] < b[i]) return -1;
    if (is_nan(a[i]) || b[i] < a[i]) return 1;
  }
  return 0;
}

void Unique::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const View view = tuples(x.dims);
  const int64_t n = view.dims[0];
  const auto parts = static_cast<size_t>(n == 0 ? 0 : view.elements() / n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> first;
  std::vector<int64_t> counts;
  std::vector<int64_t> inverse(static_cast<size_t>(n));
  x.visit([&](const auto& all) {
    using T = std::ranges::range_value_t<decltype(all)>;
    if constexpr (std::is_arithmetic_v<T>) {
      const std::vector<T> values = gather_view(all, view);
      const auto tuple = [&](int64_t i) { return values.data() + static_cast<size_t>(i) * parts; };
      std::ranges::stable_sort(
          order, [&](int64_t a, int64_t b) { return compare_parts(tuple(a), tuple(b), parts) < 0; });
      for (const int64_t i : order) {
        if (first.empty() || compare_parts(tuple(first.back()), tuple(i), parts) != 0) {
          first.push_back(i);
          counts.push_back(0);
        }
        ++counts.back();
        inverse[static_cast<size_t>(i)] = std::ssize(first) - 1;
      }
    }
  });
  if (!sorted) {
    std::vector<size_t> by_first(first.size());
    std::iota(by_first.begin(), by_first.end(), 0);
    std::ranges::sort(by_first, {}, [&](size_t g) { return first[g]; });
    std::vector<int64_t> number(first.size());
    for (size_t i = 0; i < by_first.size(); ++i) number[by_first[i]] = static_cast<int64_t>(i);
    for (int64_t& g : inverse) g = number[static_cast<size_t>(g)];
    const auto permute = [&](std::vector<int64_t>& v) {
      std::vector<int64_t> out;
      for (const size_t g : by_first) out.push_back(v[g]);
      v = out;
    };
    permute(first);
    permute(counts);
  }
  const int64_t found = std::ssize(first);
  const int64_t room = !count ? n : count->is_static() ? count->value() : found;
  first.resize(static_cast<size_t>(room));
  counts.resize(static_cast<size_t>(room));
  r.out(1) = RefTensor::zeros(DType::i64, {room});
  r.out(1).ints = first;
  r.out(2).ints = inverse;
  r.out(3) = RefTensor::zeros(DType::i64, {room});
  r.out(3).ints = counts;
  r.out(4).ints[0] = found;
  std::vector<int64_t> dims = axis ? x.dims : std::vector<int64_t>{room};
  if (axis) dims[static_cast<size_t>(normal_axis(*axis, std::ssize(dims)))] = room;
  r.out(0) = RefTensor::zeros(x.dtype, dims);
  if (n == 0) return;
  visit_both(x, r.out(0), [&](const auto& from, auto& to) {
    const auto source = gather_view(from, view);
    size_t at = 0;
    tuples(dims).for_each_position([&](int64_t position) {
      const auto tuple = static_cast<size_t>(first[at / parts]);
      to[static_cast<size_t>(position)] = source[tuple * parts + at % parts];
      ++at;
    });
  });
}

// --- Lowering ---

class UniqueLowering {
 public:
  UniqueLowering(Lowering& l, int64_t tuples) : l_(l), n_(tuples) {}

  Operand running_sum(const Operand& x) {
    const Operand y = row();
    lower_scan(l_, {.x = as_one_row(x), .y = as_one_row(y)});
    return y;
  }

  Operand mapped(std::string_view expression, const OperandList& inputs) {
    const Operand y = row();
    lower_expr(l_, Expr::parse(expression, std::vector<DType>(inputs.size(), DType::u32)), inputs, y);
    return y;
  }

  // y[slots] = x where mask; x may be absent (the index), and so may mask.
  void put(const Operand& x, const Operand& slots, const Operand& mask, const Operand& y) {
    if (y.view.elements() == 0) return;
    split_for_windows(l_, n_, y, [&](int64_t begin, int64_t length, const Operand& to) {
      const auto part = [&](const Operand& o) {
        return o.present() ? o.with_view(o.view.slice(0, begin, length)) : o;
      };
      return l_.make<kernels::put_at>(
          {.x = part(x), .slots = part(slots), .mask = part(mask), .y = to},
          {.begin = to_u32(begin), .count = to_u32(length), .room = to_u32(y.view.dims[0])},
          ceil_div(length, int64_t{kernels::put_at::GROUP}));
    });
  }

  Operand row() { return l_.scratch(DType::u32, {n_}); }

 private:
  Operand as_one_row(const Operand& o) const {
    return o.with_view({{1, n_}, {o.view.strides[0] * n_, o.view.strides[0]}, o.view.offset}, 1);
  }

  Lowering& l_;
  int64_t n_;
};

void Unique::lower(Lowering& l) const {
  const Operand& x = l.in(0);
  const int64_t n = l.out(2).view.elements();
  const int64_t room = l.out(1).view.elements();
  lower_fill(l, l.out(1), 0);
  if (n == 0) {
    for (const int64_t i : {0, 3, 4}) lower_fill(l, l.out(i), 0);
    return;
  }
  UniqueLowering u(l, n);
  const auto [order, heads] = lower_lexicographic_order(
      l, x, axis ? std::vector{normal_axis(*axis, x.view.rank())} : axes_from(0, x.view.rank()));
  const Operand upto = u.running_sum(heads);
  lower_expr(l, Expr::parse("cast_i32($0)", {DType::u32}), {upto.with_view({{}, {}, n - 1})}, l.out(4));
  // Numbers of groups by value; `starts` has where each begins, and n after the last.
  Operand group = u.mapped("sub($0,1)", {upto});
  const Operand starts = l.scratch(DType::u32, {std::max(n, room) + 1});
  lower_fill(l, starts, static_cast<double>(n));
  u.put({}, group, heads, starts);
  const Operand ends = starts.with_view(starts.view.slice(0, 1, n));
  Operand counts = u.mapped("sub($1,$0)", {starts.with_view(starts.view.slice(0, 0, n)), ends});
  if (!sorted) {
    // The number by first occurrence is the number of first ones before, in the order of x.
    const Operand is_first = u.row();
    u.put(heads, order, {}, is_first);
    const Operand number = u.mapped("sub($0,1)", {u.running_sum(is_first)});
    const Operand first = u.row();
    lower_fill(l, first, 0);
    u.put(order, group, heads, first);
    const Operand renamed = lower_row_gather(l, number, first);  // by group
    counts = lower_row_gather(l, counts, group);
    group = lower_row_gather(l, renamed, group);
  } else {
    counts = lower_row_gather(l, counts, group);
  }
  u.put(group, order, {}, l.out(2));
  u.put(order, group, heads, l.out(1));
  lower_fill(l, l.out(3), 0);
  u.put(counts, group, heads, l.out(3));
  if (l.out(0).view.elements() == 0) return;
  const int64_t along = axis ? normal_axis(*axis, x.view.rank()) : 0;
  const Dims dims = axis ? x.view.dims : Dims{n};
  std::optional<View> flat = axis ? x.view : x.view.reshape({n});
  const Operand table =
      flat ? x.with_view(*flat, along + 1) : lower_contiguous(l, x).with_view(View::contiguous({n}), 1);
  l.flat<kernels::gather>({.table = table, .indices = l.out(1), .y = l.out(0)},
                          {.count = to_u32(room),
                           .length = to_u32(to_i32(n)),
                           .inner = to_u32(product({dims.begin() + along + 1, dims.end()}))},
                          {.SIGNED = true});
}

}  // namespace

UniqueValues unique(Value x, const UniqueOptions& options) {
  auto op = std::make_shared<Unique>();
  op->axis = options.axis;
  op->sorted = options.sorted;
  if (!options.symbol.empty()) {
    op->count = Dim::symbol(options.symbol);
    if (options.capacity > 0) x.graph().set_capacity(options.symbol, options.capacity);
  } else if (options.capacity > 0) {
    op->count = Dim(options.capacity);
  }
  return named_outputs<UniqueValues>(add_node(op, {x}));
}

namespace ops {
void register_unique(OpTable& table) {
  table.add<Unique>(
      {.formula = "the different elements of x, or slices along the axis, in ascending order or by first "
                  "occurrence; "
                  "the index of the first of each; for each element of x, which one it is; how often each "
                  "occurs; and "
                  "how many there are. NaN equals NaN",
       .operands = "x (float integer): of any shape",
       .attributes = "axis: slices along it are compared; elements of x if not given\n"
                     "sorted: values are in ascending order, instead of that of their first occurrence\n"
                     "count: how many values there is room for, or a symbol for as many as the run finds; "
                     "if not given, as many as there can be",
       .outputs = "values (float integer): in the type of x, [room], or x with this length along the axis\n"
                  "first (i64): [room], the index in x of the first of each value; zeros after the last\n"
                  "inverse (i64): for each element or slice of x, which of the values it is\n"
                  "counts (i64): [room], how often each value occurs; zeros after the last\n"
                  "count (i32): [], how many values there are, even if there is less room",
       .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
       .variants = {"unique"},
       .samples = {"unique(i32[17] in 0..5)", "unique(T[3,7] in -1..1) {sorted=false}", "unique(T[1])",
                   "unique(T[])", "unique(T[0])", "unique(i64[40,3] in 0..1) {axis=0}",
                   "unique(i32[3,4,9] in 0..1) {axis=-1, sorted=false}", "unique(T[5,1031] in 0..1) {axis=0}",
                   "unique(i32[33,7] in 0..1) {axis=0, sorted=false}", "unique(i32[3,0]) {axis=0}",
                   "unique(i32[1,600]) {axis=0}", "unique(u8[257] in 0..20) {count=9}",
                   "unique(i32[100] in 0..3) {count=9, sorted=false}", "unique(i32[50021] in 0..3000)",
                   "unique(i32[40007] in -9..9) {sorted=false}"}});
}
}  // namespace ops

}  // namespace rlx
