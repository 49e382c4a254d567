// Quantiles and medians: the order of rows, of which a few elements are picked and interpolated.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/quantile_places.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "ops/order/row_order.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/gather_elements.h"
#include "ops/reductions/reduce.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

bool blends(Interpolation i) { return i == Interpolation::linear || i == Interpolation::midpoint; }

// Which elements a quantile lies between, and how far it is from the first to the second.
struct Place {
  int64_t below, above;
  double between;
};

Place place_of(double q, int64_t length, Interpolation interpolation) {
  const double at = q * static_cast<double>(length - 1);
  const auto low = static_cast<int64_t>(std::floor(at));
  const auto high = static_cast<int64_t>(std::ceil(at));
  switch (interpolation) {
    case Interpolation::linear:
      return {low, high, at - std::floor(at)};
    case Interpolation::midpoint:
      return {low, high, low == high ? 0 : 0.5};
    case Interpolation::lower:
      return {low, low, 0};
    case Interpolation::higher:
      return {high, high, 0};
    case Interpolation::nearest:
      break;
  }
  const auto near = static_cast<int64_t>(std::nearbyint(at));
  return {near, near, 0};
}

// Equal ends are the result whatever lies between them, infinities too.
double blended(double a, double b, double t) {
  if (a == b || t == 0) return a;
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

// What both ops have.
struct QuantileAttributes {
  std::vector<int64_t> axes;
  bool keepdims = false;
  Interpolation interpolation = Interpolation::linear;
  bool ignore_nan = false;

  void visit(AttributeVisitor& v) {
    v("axes", axes, {});
    v("keepdims", keepdims, false);
    v.choice("interpolation", interpolation, {"linear", "lower", "higher", "nearest", "midpoint"},
             std::optional(Interpolation::linear));
    v("ignore_nan", ignore_nan, false);
  }
  void set(const QuantileOptions& options) {
    axes = options.axes;
    keepdims = options.keepdims;
    interpolation = options.interpolation;
    ignore_nan = options.ignore_nan;
  }
  QuantileOptions options() const { return {axes, keepdims, interpolation, ignore_nan}; }

  // The type for one quantile.
  TensorType infer(const InferArgs& in) const {
    in.expect_count(1);
    const DType t = in.dtype(0);
    in.expect_dtype(0, is_float(t) || is_integer(t), "a float or integer type");
    if (blends(interpolation) && !is_float(t)) {
      fail(
          "{}: elements of the type {} cannot be interpolated; cast them, or ask for lower, higher or "
          "nearest",
          in.op(), to_string(t));
    }
    const Shape y = reduced_shape(in, axes, keepdims);
    const Shape& x = in.shape(0);
    for (const int64_t axis : reduced_axes(axes, x.rank())) {
      if (x[axis].is(0)) fail("{}: axis {} of {} has no elements", in.op(), axis, x.text());
    }
    return {t, y};
  }

  void reference(RefContext& r, const std::vector<double>& q) const {
    const RefTensor& x = r.in(0);
    Operand source;
    source.view = View::contiguous(x.dims);
    const Operand rows = as_rows(source, reduced_axes(axes, source.view.rank()));
    const auto length = static_cast<size_t>(row_length(rows));
    const auto count = static_cast<size_t>(row_count(rows));
    visit_both(x, r.out(), [&](const auto& from, auto& to) {
      using T = std::ranges::range_value_t<decltype(from)>;
      if constexpr (std::is_arithmetic_v<T>) {
        const std::vector<T> all = gather_view(from, rows.view);
        for (size_t row = 0; row < count; ++row) {
          const std::span<const T> whole = std::span(all).subspan(row * length, length);
          std::vector<T> numbers;
          std::ranges::copy_if(whole, std::back_inserter(numbers),
                               [](T v) { return !std::isnan(static_cast<double>(v)); });
          std::ranges::sort(numbers);
          const bool is_nan = numbers.empty() || (!ignore_nan && numbers.size() < length);
          for (size_t j = 0; j < q.size(); ++j) {
            T& y = to[j * count + row];
            if constexpr (std::is_floating_point_v<T>) y = NAN;
            if (is_nan) continue;
            const Place p = place_of(q[j], std::ssize(numbers), interpolation);
            const T a = numbers[static_cast<size_t>(p.below)];
            if constexpr (std::is_floating_point_v<T>) {
              y = blended(a, numbers[static_cast<size_t>(p.above)], p.between);
            } else {
              y = a;
            }
          }
        }
      }
    });
  }

  Tolerance tolerance() const {
    if (!blends(interpolation)) return {.ulps = 0};
    return {.ulps = 4, .scale = 4};  // the difference of two of the sweep's inputs
  }
};

class QuantileLowering {
 public:
  // x is [rows, length], y [quantiles, rows].
  QuantileLowering(Lowering& l, const std::vector<double>& q, const QuantileAttributes& attributes,
                   const Operand& x, const Operand& y)
      : l_(l),
        q_(q),
        interpolation_(attributes.interpolation),
        x_(x),
        y_(y),
        rows_(x.view.dims[0]),
        length_(x.view.dims[1]),
        quantiles_(static_cast<int64_t>(q.size())) {}

  void run() {
    std::vector<Place> places;
    for (const double q : q_) places.push_back(place_of(q, length_, interpolation_));
    const int64_t lowest = std::ranges::min(places, {}, &Place::below).below;
    const int64_t highest = std::ranges::max(places, {}, &Place::above).above;
    // From the end from which fewer elements have to be in order. NaN is the first from above.
    const bool from_above = length_ - lowest <= highest + 1;
    const int64_t count = from_above ? length_ - lowest : highest + 1;
    const Operand order = ordered(from_above, count);
    const auto there = [&](int64_t at) { return from_above ? length_ - 1 - at : at; };
    std::vector<int64_t> picked;
    std::vector<double> between;
    for (const Place& p : places) picked.push_back(there(p.below));
    for (const Place& p : places) picked.push_back(there(p.above));
    for (const Place& p : places) between.push_back(p.between);
    if (!blends(interpolation_)) picked.resize(q_.size());
    const bool probes = is_float(x_.dtype) && from_above;
    if (probes) picked.push_back(0);
    const auto each = static_cast<int64_t>(picked.size());
    const Operand table = l_.table(Tensor::from_ints(DType::u32, {each}, picked));
    const Operand values = picked_values(order, table.with_view({{rows_, each}, {0, 1}, table.view.offset}));
    Operand probe;
    if (probes) {
      probe = values.with_view({{quantiles_, rows_}, {0, each}, values.view.offset + each - 1});
    } else if (is_float(x_.dtype)) {
      probe = l_.scratch(x_.dtype, {rows_});
      lower_reduce(l_, ReduceKind::max, x_, {1}, probe);
      probe = probe.with_view({{quantiles_, rows_}, {0, 1}, probe.view.offset});
    }
    const auto columns = [&](int64_t first) {
      return values.with_view(values.view.slice(1, first, quantiles_).permute({1, 0}));
    };
    if (!blends(interpolation_)) return pick(columns(0), probe);
    const Operand weights = l_.table(Tensor::from_doubles(DType::f32, {quantiles_}, between));
    blend(columns(0), columns(quantiles_),
          weights.with_view({{quantiles_, rows_}, {1, 0}, weights.view.offset}), probe);
  }

  // Only the numbers of each row count.
  void run_without_nan() {
    const Operand order = ordered(false, length_);
    const Operand is_missing = l_.scratch(DType::i32, {rows_, length_});
    lower_expr(l_, Expr::parse("t0=is_nan($0); cast_i32(t0)", {x_.dtype}), {x_}, is_missing);
    const Operand missing = l_.scratch(DType::i32, {rows_});
    lower_reduce(l_, ReduceKind::sum, is_missing, {1}, missing);
    std::vector<int64_t> words;
    for (const double q : q_) {
      const auto fixed = static_cast<int64_t>(std::nearbyint(std::ldexp(q, 32)));
      words.push_back(fixed >> 16);
      words.push_back(fixed & 0xffff);
    }
    const Operand q = l_.table(Tensor::from_ints(DType::u32, {2 * quantiles_}, words));
    const auto places = [&](uint32_t what, const Operand& y) {
      l_.flat<kernels::quantile_places>({.missing = missing, .q = q, .y = y},
                                        {.length = to_u32(length_), .count = to_u32(quantiles_)},
                                        {.MODE = static_cast<uint32_t>(interpolation_), .WHAT = what});
      return y;
    };
    const auto by_quantile = [](const Operand& o) { return o.with_view(o.view.permute({1, 0})); };
    const auto picked = [&](uint32_t what) {
      return by_quantile(picked_values(order, places(what, l_.scratch(DType::u32, {rows_, quantiles_}))));
    };
    const Operand below = picked(kernels::quantile_places::BELOW);
    if (!blends(interpolation_)) return pick(below, {});
    const Operand between =
        places(kernels::quantile_places::BETWEEN, l_.scratch(DType::f32, {rows_, quantiles_}));
    blend(below, picked(kernels::quantile_places::ABOVE), by_quantile(between), {});
  }

 private:
  Operand ordered(bool descending, int64_t count) {
    const Operand order = l_.scratch(DType::u32, {rows_, count});
    lower_order(l_,
                {.op = "sort",
                 .ranks = lower_ranks(l_, x_.with_view(x_.view, 1), descending, order_pitch(length_, count)),
                 .rows = rows_,
                 .length = length_,
                 .count = count,
                 .bits = rank_bits(x_.dtype),
                 .y = order.with_view(order.view, 1)});
    return order;
  }

  // The elements of x at these places in the order of their row.
  Operand picked_values(const Operand& order, const Operand& places) {
    const Operand chosen = l_.scratch(DType::u32, places.view.dims);
    lower_gather_elements(l_, order, places, 1, chosen);
    const Operand values = l_.scratch(x_.dtype, places.view.dims);
    lower_gather_elements(l_, x_, chosen, 1, values);
    return values;
  }

  // All operands are [quantiles, rows]; where the probe is NaN, so is y.
  void pick(const Operand& values, const Operand& probe) {
    if (!probe.present()) return lower_copy(l_, values, y_);
    lower_expr(l_, Expr::parse("t0=is_nan($1); where(t0,$1,$0)", {x_.dtype, x_.dtype}), {values, probe}, y_);
  }

  void blend(const Operand& below, const Operand& above, const Operand& between, const Operand& probe) {
    std::string steps =
        "t0=cast_f32($0); t1=cast_f32($1); t2=sub(t1,t0); t3=mul(t2,$2); t4=add(t0,t3); t5=sub(1,$2); "
        "t6=mul(t2,t5); t7=sub(t1,t6); t8=less($2,0.5); t9=where(t8,t4,t7); t10=equal(t0,t1); "
        "t11=equal($2,0); t12=logical_or(t10,t11); t13=where(t12,t0,t9); ";
    OperandList inputs = {below, above, between};
    std::vector<DType> types = {below.dtype, above.dtype, DType::f32};
    if (probe.present()) {
      steps += "t14=is_nan($3); t15=cast_f32($3); t16=where(t14,t15,t13); ";
      inputs.push_back(probe);
      types.push_back(probe.dtype);
    }
    steps += formatted("cast_{}({})", to_string(y_.dtype), probe.present() ? "t16" : "t13");
    lower_expr(l_, Expr::parse(steps, types), inputs, y_);
  }

  Lowering& l_;
  const std::vector<double>& q_;
  Interpolation interpolation_;
  const Operand& x_;
  const Operand& y_;
  int64_t rows_, length_, quantiles_;
};

struct Quantile final : OpOf<Quantile> {
  static constexpr auto kName = "quantile";
  std::vector<double> q;
  QuantileAttributes a;

  void visit_attributes(AttributeVisitor& v) override {
    v("q", q);
    a.visit(v);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    for (const double one : q) {
      if (!(one >= 0 && one <= 1)) fail("quantile: q is {}, outside of [0, 1]", one);
    }
    TensorType y = a.infer(in);
    y.shape.insert(0, static_cast<int64_t>(q.size()));
    return {y};
  }
  void reference(RefContext& r) const override { a.reference(r, q); }
  Tolerance tolerance(std::span<const TensorType>) const override { return a.tolerance(); }

  void lower(Lowering& l) const override {
    if (l.out().view.elements() == 0) return;
    const Operand rows = as_rows(l.in(0), reduced_axes(a.axes, l.in(0).view.rank()));
    const Dims dims = {row_count(rows), row_length(rows)};
    const std::optional<View> flat = rows.view.reshape(dims);
    const Operand x =
        flat ? rows.with_view(*flat) : lower_contiguous(l, rows).with_view(View::contiguous(dims));
    const Operand y = l.out().with_view(View::contiguous({static_cast<int64_t>(q.size()), dims[0]}));
    QuantileLowering lowering(l, q, a, x, y);
    if (a.ignore_nan && is_float(x.dtype)) {
      lowering.run_without_nan();
    } else {
      lowering.run();
    }
  }
};

struct Median final : OpOf<Median> {
  static constexpr auto kName = "median";
  QuantileAttributes a;

  void visit_attributes(AttributeVisitor& v) override { a.visit(v); }
  std::vector<TensorType> infer(const InferArgs& in) const override { return {a.infer(in)}; }
  void reference(RefContext& r) const override { a.reference(r, {0.5}); }
  Tolerance tolerance(std::span<const TensorType>) const override { return a.tolerance(); }

  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    const Value all = quantile(in[0], {0.5}, a.options());
    Shape dims = all.shape();
    dims.erase(0);
    return std::vector{reshape(all, dims)};
  }
};

}  // namespace

Value quantile(Value x, std::vector<double> q, const QuantileOptions& options) {
  auto op = std::make_shared<Quantile>();
  op->q = std::move(q);
  op->a.set(options);
  return add_node(op, {x});
}

Value median(Value x, const QuantileOptions& options) {
  auto op = std::make_shared<Median>();
  op->a.set(options);
  return add_node(op, {x});
}

namespace ops {
void register_quantile(OpTable& table) {
  constexpr auto kTypes = "f32 f16 bf16 i32 u32 i64 i8 u8";
  table.add<Quantile>(
      {.formula =
           "the elements at (n - 1) q among the n along the axes in ascending order, for each q along a "
           "new first axis; between two of them what the interpolation says",
       .operands = "x (float integer): the elements, in any order",
       .attributes = "q: which quantiles, each from 0 to 1\n"
                     "axes: which axes are reduced; all if empty\n"
                     "keepdims: reduced axes stay, with length 1\n"
                     "interpolation: what is made of the two elements that a quantile lies between; "
                     "integers cannot be blended\n"
                     "ignore_nan: NaN counts as missing, instead of making the result NaN",
       .outputs = "y (float integer): in the type of x: [quantiles, the shape of x without the reduced axes]",
       .types = kTypes,
       .variants = {"quantile"},
       .samples = {"quantile(f32[3,17]) {q=[0.5,0,1], axes=[-1]}",
                   "quantile(f16[5,2,7]) {q=[0.3], axes=[0,2], keepdims=true}",
                   "quantile(bf16[40]) {q=[0.1,0.9], interpolation=\"midpoint\"}",
                   "quantile(T[2,70,5]) {q=[0.01,0.75], axes=[1], interpolation=\"lower\"}",
                   "quantile(T[257]) {q=[0.99], interpolation=\"higher\"}",
                   "quantile(T[3,6]) {q=[0.1,0.3,0.5], axes=[1], interpolation=\"nearest\"}",
                   "quantile(f32[3,18]) {q=[0.5,0.25], axes=[1], ignore_nan=true}",
                   "quantile(f32[9,4]) {q=[0.7,0.2], axes=[0], interpolation=\"midpoint\", ignore_nan=true}",
                   "quantile(T[7]) {q=[0.7], interpolation=\"nearest\", ignore_nan=true}",
                   "quantile(f32[0,3]) {q=[0.5], axes=[1]}", "quantile(T[4]) {q=[], interpolation=\"lower\"}",
                   "quantile(f32[1]) {q=[0.4]}", "quantile(f32[300007]) {q=[0.5,0.001]}",
                   "quantile(f32[1031,67]) {q=[0.02], axes=[0]}",
                   "quantile(f32[2,60001]) {q=[0.5], axes=[1], ignore_nan=true}"}});
  table.add<Median>(
      {.formula = "the quantile 0.5 along the axes: the mean of the two in the middle, or the lower one",
       .operands = "x (float integer): the elements, in any order",
       .attributes = "axes: which axes are reduced; all if empty\n"
                     "keepdims: reduced axes stay, with length 1\n"
                     "interpolation: what is made of the two elements that the median lies between; "
                     "integers cannot be blended\n"
                     "ignore_nan: NaN counts as missing, instead of making the result NaN",
       .outputs = "y (float integer): in the type of x, of its shape without the reduced axes",
       .types = kTypes,
       .variants = {"expanded"},
       .samples = {"median(f32[3,18]) {axes=[-1]}", "median(f16[5,2,7])",
                   "median(T[4,6]) {axes=[0], keepdims=true, interpolation=\"lower\"}", "median(f32[1])",
                   "median(f32[6,257]) {axes=[1], ignore_nan=true}"}});
}
}  // namespace ops

}  // namespace rlx
