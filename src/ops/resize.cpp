// Axes are resized one after the other or, as a kernel of its own, two neighbours at once.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "ir/literal.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/rates.h"
#include "kernels/resize_nearest.wgsl.h"
#include "kernels/resize_weighted.wgsl.h"
#include "ops/copy.h"
#include "ops/fill.h"
#include "ops/op_table.h"
#include "ops/resize_taps.h"
#include "ops/rows.h"
#include "rlx/ops/resampling.h"

namespace rlx {
namespace {

struct Resize final : OpOf<Resize> {
  static constexpr auto kName = "resize";
  ResizeOptions o;

  void visit_attributes(AttributeVisitor& v) override;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  // Counted from the front.
  std::vector<int64_t> axes_of(int64_t rank) const;
  // What each axis of x becomes; nothing for those that stay as they are.
  std::vector<std::optional<Taps>> taps(const std::vector<int64_t>& in,
                                        const std::vector<int64_t>& out) const;
};

void Resize::visit_attributes(AttributeVisitor& v) {
  v("axes", o.axes, {});
  v("scales", o.scales, {});
  v("sizes", o.sizes, {});
  v.choice("mode", o.mode, {"nearest", "linear", "cubic"}, std::optional(ResizeMode::linear));
  v.choice("coordinates", o.coordinates,
           {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
            "tf_half_pixel_for_nn", "tf_crop_and_resize"},
           std::optional(ResizeCoordinates::half_pixel));
  v.choice("rounding", o.rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
           std::optional(ResizeRounding::round_prefer_floor));
  v.choice("aspect", o.aspect, {"stretch", "not_larger", "not_smaller"},
           std::optional(ResizeAspect::stretch));
  v("antialias", o.antialias, false);
  v("exclude_outside", o.exclude_outside, false);
  v("cubic_coeff", o.cubic_coeff, -0.75);
  v("roi", o.roi, {});
  v("outside", o.outside, 0);
}

std::vector<int64_t> Resize::axes_of(int64_t rank) const {
  std::vector<int64_t> out = o.axes.empty() ? axes_from(0, rank) : o.axes;
  for (int64_t& axis : out) axis = normal_axis(axis, rank);
  return out;
}

// --- Sizes ---

void check_options(const Resize& op, const InferArgs& in) {
  const ResizeOptions& o = op.o;
  const int64_t rank = in.shape(0).rank();
  for (const int64_t axis : o.axes) in.axis(axis, rank);
  std::vector<int64_t> axes = op.axes_of(rank);
  const auto count = std::ssize(axes);
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) fail("resize: an axis is in the list of axes twice");
  const int64_t scales = std::ssize(o.scales);
  const int64_t sizes = o.sizes.rank();
  if ((scales != count || sizes != 0) && (sizes != count || scales != 0))
    fail("resize: {} axes need as many scales, or as many sizes, but it has {} scales and {} sizes", count,
         scales, sizes);
  if (o.aspect != ResizeAspect::stretch && sizes == 0 && count > 0)
    fail("resize: keeping the aspect ratio needs sizes, not scales");
  const bool crops = o.coordinates == ResizeCoordinates::tf_crop_and_resize;
  if (crops && std::ssize(o.roi) != 2 * count)
    fail("resize: tf_crop_and_resize of {} axes needs {} numbers in `roi`, not {}", count, 2 * count,
         o.roi.size());
  if (crops) expect_fits(in.dtype(0), o.outside);
  if (o.mode != ResizeMode::nearest) in.expect_float(0);
}

// The size for one scale of all axes: that of the axis that is the first to reach its limit.
Dim scaled_like(const Shape& x, const std::vector<int64_t>& axes, const ResizeOptions& o, int64_t axis) {
  std::optional<Dim> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    // x[axis] * size / x[other], rounded.
    const Dim& other = x[axes[i]];
    if (other.is(0)) fail("resize: an axis of length 0 in {} has no aspect ratio", x.text());
    const Dim size = (x[axis] * o.sizes[static_cast<int64_t>(i)] * Dim(2) + other).floor_div(other * Dim(2));
    out = !out ? size : o.aspect == ResizeAspect::not_larger ? Dim::min(*out, size) : Dim::max(*out, size);
  }
  return *out;
}

std::vector<TensorType> Resize::infer(const InferArgs& in) const {
  in.expect_count(1);
  check_options(*this, in);
  const Shape& x = in.shape(0);
  Shape out = x;
  const std::vector<int64_t> axes = axes_of(x.rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i];
    if (!o.scales.empty()) {
      const Fraction scale = as_fraction(o.scales[i]);
      out[axis] = (x[axis] * Dim(scale.numerator)).floor_div(scale.denominator);
    } else if (o.aspect == ResizeAspect::stretch) {
      out[axis] = o.sizes[static_cast<int64_t>(i)];
    } else {
      out[axis] = scaled_like(x, axes, o, axis);
    }
    if (out[axis].is_static() && out[axis].value() < 0)
      fail("resize: the size of axis {} is {}", axis, out[axis].text());
    if (x[axis].is(0) && !out[axis].is(0))
      fail("resize: axis {} of {} has no elements to make {} of", axis, x.text(), out[axis].text());
  }
  return {TensorType{in.dtype(0), out}};
}

// Of axis i in the list.
Fraction scale_of(const ResizeOptions& o, const std::vector<int64_t>& axes, const std::vector<int64_t>& in,
                  size_t i) {
  if (!o.scales.empty()) return as_fraction(o.scales[i]);
  const auto given = [&](size_t j) {
    return Fraction{o.sizes[static_cast<int64_t>(j)].value(), in[static_cast<size_t>(axes[j])]};
  };
  if (o.aspect == ResizeAspect::stretch) return given(i);
  Fraction best = given(0);
  for (size_t j = 1; j < axes.size(); ++j) {
    const Fraction f = given(j);
    const bool less = f.numerator * best.denominator < best.numerator * f.denominator;
    if (less == (o.aspect == ResizeAspect::not_larger)) best = f;
  }
  return best;
}

std::vector<std::optional<Taps>> Resize::taps(const std::vector<int64_t>& in,
                                              const std::vector<int64_t>& out) const {
  const std::vector<int64_t> axes = axes_of(std::ssize(in));
  std::vector<std::optional<Taps>> result(in.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    ResizeAxis a{.in = in[axis], .out = out[axis], .scale = scale_of(o, axes, in, i)};
    if (o.coordinates == ResizeCoordinates::tf_crop_and_resize) {
      a.roi_begin = o.roi[i];
      a.roi_end = o.roi[axes.size() + i];
    }
    Taps taps = resize_taps(o, a);
    if (!taps.copies(a.in)) result[axis] = std::move(taps);
  }
  return result;
}

// --- Reference ---

// Resizes the axis of a tensor [outer, length, inner].
template <class T>
std::vector<T> resized(const std::vector<T>& x, int64_t outer, int64_t length, int64_t inner,
                       const Taps& taps, bool weighted, double outside) {
  std::vector<T> y;
  const int64_t count = std::ssize(taps.index) / taps.count;
  for (int64_t row = 0; row < outer * count; ++row) {
    const int64_t first = row % count * taps.count;
    for (int64_t n = 0; n < inner; ++n) {
      T sum = T();
      for (int64_t t = first; t < first + taps.count; ++t) {
        const int64_t index = taps.index[static_cast<size_t>(t)];
        const T value = index == Taps::kOutside
                            ? static_cast<T>(outside)
                            : x[static_cast<size_t>((row / count * length + index) * inner + n)];
        if (!weighted || index == Taps::kOutside) sum = value;
        if constexpr (std::is_same_v<T, double>) {
          const double weight = taps.weight[static_cast<size_t>(t)];
          if (weighted && index != Taps::kOutside && weight != 0) sum += weight * value;
        }
      }
      y.push_back(sum);
    }
  }
  return y;
}

void Resize::reference(RefContext& r) const {
  RefTensor now = r.in(0);
  if (r.out().elements() == 0) return;
  const std::vector<std::optional<Taps>> all = taps(now.dims, r.out().dims);
  for (size_t axis = all.size(); axis-- > 0;) {
    if (!all[axis]) continue;
    const auto at = now.dims.begin() + static_cast<std::ptrdiff_t>(axis);
    const int64_t outer = product({now.dims.begin(), at});
    const int64_t inner = product({at + 1, now.dims.end()});
    now.visit([&](auto& values) {
      values = resized(values, outer, *at, inner, *all[axis], o.mode != ResizeMode::nearest, o.outside);
    });
    *at = r.out().dims[axis];
  }
  r.out() = std::move(now);
}

Tolerance Resize::tolerance(std::span<const TensorType> inputs) const {
  if (o.mode == ResizeMode::nearest) return {.ulps = 0};
  // Each axis has a rounding of the weight, of the product and of each sum. Cubic weights add up to 1, but
  // their magnitudes do not: numbers up to 2 become twice as large along each axis at most.
  const auto axes = static_cast<double>(axes_of(inputs[0].shape.rank()).size());
  return {.ulps = 3 * axes, .terms = 16, .scale = o.mode == ResizeMode::linear ? 2 : 2 * std::pow(2, axes)};
}

// --- Lowering ---

// One dispatch: x and y are [outer.., rows, columns, inner]. Rows or columns without taps stay as they are.
struct Pass {
  const ResizeOptions* o = nullptr;
  Operand x, y;
  std::optional<Taps> rows, columns;

  int64_t rank() const { return x.view.rank(); }
  bool weighted() const { return o->mode != ResizeMode::nearest; }
};

// Taps for the kernel: those of the rows, then those of the columns.
struct Tables {
  std::vector<int32_t> index;
  std::vector<float> weight;
  int64_t column_taps = 0;  // where they begin
  // Instead of taps of columns: elements of x for each four columns, each with four weights.
  int64_t shared = 0;
  std::vector<float> share;
  // The same of rows, after those of the columns.
  int64_t row_shared = 0;
  int64_t row_taps = 0, row_shares = 0;  // where they begin
};

// The elements of x that four columns are made of, each with its weights in them.
using Shared = std::vector<std::pair<int64_t, std::array<double, 4>>>;

Shared shared_by(const Taps& taps, int64_t first) {
  Shared out;
  const int64_t columns = std::ssize(taps.index) / taps.count;
  for (int64_t c = 0; c < std::min<int64_t>(4, columns - first); ++c) {
    for (int64_t t = 0; t < taps.count; ++t) {
      const auto tap = static_cast<size_t>((first + c) * taps.count + t);
      const int64_t index = taps.index[tap];
      if (index == Taps::kOutside && t > 0) continue;
      const double weight = index == Taps::kOutside ? 1 : taps.weight[tap];
      if (weight == 0) continue;
      auto it = std::ranges::find(out, index, &Shared::value_type::first);
      if (it == out.end()) it = out.insert(it, {index, {}});
      it->second[static_cast<size_t>(c)] += weight;
    }
  }
  return out;
}

struct SharedBySome {
  std::vector<Shared> all;  // of each four
  size_t most = 0;

  void add_to(Tables& tables) {
    for (Shared& list : all) {
      list.resize(most, {list.front().first, {}});
      for (const auto& [index, weights] : list) {
        tables.index.push_back(to_i32(index));
        for (const double w : weights) tables.share.push_back(static_cast<float>(w));
      }
    }
  }
};

SharedBySome shared_by_fours(const Taps& taps) {
  SharedBySome out;
  const int64_t count = std::ssize(taps.index) / taps.count;
  for (int64_t first = 0; first < count; first += 4) {
    out.all.push_back(shared_by(taps, first));
    out.most = std::max(out.most, out.all.back().size());
  }
  return out;
}

void add_shared(const Pass& p, Tables& tables) {
  SharedBySome columns = shared_by_fours(*p.columns);
  tables.shared = static_cast<int64_t>(columns.most);
  columns.add_to(tables);
  if (!p.rows) return;
  SharedBySome rows = shared_by_fours(*p.rows);
  // Each is multiplied by four weights: not worth it where few are shared. An invocation holds all of them.
  constexpr size_t kHeldRows = 16;
  if (rows.most > 3 * static_cast<size_t>(p.rows->count) || rows.most > kHeldRows) return;
  tables.row_shared = static_cast<int64_t>(rows.most);
  tables.row_taps = std::ssize(tables.index);
  tables.row_shares = std::ssize(tables.share);
  rows.add_to(tables);
}

Tables tables_of(const Pass& p) {
  Tables t;
  const auto add = [&](const Taps& taps) {
    for (const int64_t i : taps.index) t.index.push_back(to_i32(i));
    for (const double w : taps.weight) t.weight.push_back(static_cast<float>(w));
  };
  if (p.rows) add(*p.rows);
  t.column_taps = std::ssize(t.index);
  if (!p.columns) return t;
  if (p.weighted() && p.y.view.dims.back() == 1) {
    add_shared(p, t);
  } else {
    add(*p.columns);
  }
  return t;
}

bool in_pairs(const std::vector<int64_t>& taps) {
  for (size_t i = 1; i < taps.size(); i += 2) {
    if (taps[i] != taps[i - 1]) return false;
  }
  return true;
}

template <class K>
Dispatch make_dispatch(Lowering& l, const Pass& p) {
  const View& x = p.x.view;
  const auto dims = p.y.view.dims.end() - 3;
  const auto strides = x.strides.end() - 3;
  typename K::Params params = {};
  params.rows = to_u32(dims[0]);
  params.width = to_u32(dims[1] * dims[2]);
  params.inner = to_u32(dims[2]);
  params.quads = to_u32(ceil_div(params.width, 4));
  params.lines = to_u32(p.y.view.elements() / params.width);
  params.blocks = to_u32(ceil_div(params.rows, K::LINES));
  params.tasks =
      to_u32((p.rows ? params.lines / params.rows * params.blocks : ceil_div(params.lines, K::LINES)) *
             params.quads);
  const Tables tables = tables_of(p);
  params.column_taps = to_u32(tables.column_taps);
  params.row_shared = to_u32(tables.row_taps);
  params.row_shares = to_u32(tables.row_shares);
  params.x_row = static_cast<uint32_t>(to_i32(strides[0]));
  params.x_column = static_cast<uint32_t>(to_i32(strides[1]));
  params.x_inner = static_cast<uint32_t>(to_i32(strides[2]));
  params.outside = value_bits(p.y.dtype, p.o->outside);
  typename K::Spec spec = {};
  spec.ROW_TAPS = p.rows ? to_u32(p.rows->count) : 0;
  spec.COLUMN_TAPS = p.columns ? to_u32(p.columns->count) : 0;
  spec.NARROW = dims[2] == 1;
  spec.X4 = dims[2] % 4 == 0 && rows_by_four(p.x.with_view(x, p.rank() - 1));
  const Operand y = p.y.with_view(p.y.view, p.rank() - 2);
  spec.Y4 = params.width % 4 == 0 && rows_by_four(y);
  spec.CROPS = p.o->coordinates == ResizeCoordinates::tf_crop_and_resize;
  typename K::Operands operands = {};
  operands.x = p.x.with_view(x, p.rank() - 3);
  operands.x.x4 = spec.X4;
  operands.y = y;
  operands.y.x4 = spec.Y4;
  operands.taps = l.table(Tensor::of({std::ssize(tables.index)}, tables.index));
  if constexpr (requires { operands.weights; }) {
    const auto table = [&](const std::vector<float>& v) {
      return v.empty() ? Operand{} : l.table(Tensor::of({std::ssize(v)}, v));
    };
    operands.weights = table(tables.weight);
    operands.shares = table(tables.share);
    spec.SHARED = to_u32(tables.shared);
    spec.ROW_SHARED = to_u32(tables.row_shared);
  } else {
    spec.PAIRS = spec.NARROW && p.columns && in_pairs(p.columns->index);
  }
  return l.make<K>(operands, params, ceil_div(params.tasks, K::GROUP), spec);
}

// Elements [begin, end) of y along an axis, and what of x they need.
Pass part_of(const Pass& p, int64_t axis, int64_t begin, int64_t end) {
  Pass part = p;
  part.y.view = p.y.view.slice(axis, begin, end - begin);
  std::optional<Taps>* const taps = axis == p.rank() - 3   ? &part.rows
                                    : axis == p.rank() - 2 ? &part.columns
                                                           : nullptr;
  if (!taps || !*taps) {
    part.x.view = p.x.view.slice(axis, begin, end - begin);
    return part;
  }
  Taps some = (*taps)->part(begin, end);
  int64_t low = p.x.view.dims[static_cast<size_t>(axis)];
  int64_t high = 0;
  for (const int64_t i : some.index) {
    if (i == Taps::kOutside) continue;
    low = std::min(low, i);
    high = std::max(high, i);
  }
  low = std::min(low, high);
  for (int64_t& i : some.index) i = i == Taps::kOutside ? i : i - low;
  part.x.view = p.x.view.slice(axis, low, high - low + 1);
  *taps = std::move(some);
  return part;
}

// In halves along the first axis of y that has more than one element, until it can be bound.
void emit_parts(Lowering& l, const Pass& p) {
  const auto make =
      p.weighted() ? make_dispatch<kernels::resize_weighted> : make_dispatch<kernels::resize_nearest>;
  Dispatch d = make(l, p);
  const Dims& dims = p.y.view.dims;
  const auto found = std::ranges::find_if(dims, [](int64_t n) { return n > 1; });
  if (found == dims.end() || fits(d, l.caps())) {
    l.emit(std::move(d));
    return;
  }
  const int64_t axis = found - dims.begin();
  const int64_t half = ceil_div(*found, 2);
  for (Pass part : {part_of(p, axis, 0, half), part_of(p, axis, half, *found)}) {
    // The elements of one row of y can lie in many rows of x, far apart.
    if (axis >= p.rank() - 2) part.x = lower_contiguous(l, part.x);
    emit_parts(l, part);
  }
}

// Resizes an axis, or it and the next one if there are taps for both.
void lower_pass(Lowering& l, const ResizeOptions& o, const Operand& x, const Operand& y, int64_t axis,
                const Taps& taps, const Taps* next) {
  const int64_t end = axis + (next ? 2 : 1);
  const bool last = !next && product({x.view.dims.begin() + end, x.view.dims.end()}) == 1;
  const auto by_role = [&](const Operand& operand, bool keep_strides) -> std::optional<Operand> {
    View v = operand.view.slice_axes(0, axis);
    const auto add = [&](const View& one) {
      v.dims.insert(v.dims.end(), one.dims.begin(), one.dims.end());
      v.strides.insert(v.strides.end(), one.strides.begin(), one.strides.end());
    };
    const View unit{.dims = {1}, .strides = {0}, .offset = 0};
    if (last) add(unit);
    add(operand.view.slice_axes(axis, end));
    if (!last && !next) add(unit);
    View inner = operand.view.slice_axes(end, operand.view.rank()).coalesced();
    if (inner.rank() == 0) inner = unit;
    if (inner.rank() > 1 && keep_strides) return std::nullopt;
    add(inner);
    return operand.with_view(v);
  };
  const std::optional<Operand> source = by_role(x, true);
  if (!source) return lower_pass(l, o, lower_contiguous(l, x), y, axis, taps, next);
  Pass p{.o = &o, .x = *source, .y = *by_role(y, false)};
  if (!last) p.rows = taps;
  if (last) p.columns = taps;
  if (next) p.columns = *next;
  emit_parts(l, p);
}

struct Problem {
  const ResizeOptions* o;
  Operand x, y;
  std::vector<std::optional<Taps>> taps;

  std::string key() const { return formatted("{} taps {}", to_string(x.dtype), size_class(all_taps())); }
  int64_t all_taps() const {
    int64_t n = 1;
    for (const std::optional<Taps>& t : taps) n *= t ? t->count : 1;
    return n;
  }
};

// The axes in the order in which they are resized: those that shrink x most first. Among equals the last one,
// since elements are gathered one by one there, and later in fours.
std::vector<int64_t> order_of(const Problem& p) {
  std::vector<int64_t> axes;
  for (size_t i = p.taps.size(); i-- > 0;) {
    if (p.taps[i]) axes.push_back(static_cast<int64_t>(i));
  }
  std::ranges::stable_sort(axes, {}, [&](int64_t axis) {
    const auto i = static_cast<size_t>(axis);
    return static_cast<double>(p.y.view.dims[i]) / static_cast<double>(p.x.view.dims[i]);
  });
  return axes;
}

bool make_passes(Lowering& l, const Problem& p, bool joint) {
  std::vector<int64_t> axes = order_of(p);
  Operand now = p.x;
  while (!axes.empty()) {
    int64_t axis = axes.front();
    axes.erase(axes.begin());
    const Taps* next = nullptr;
    const auto neighbour = std::ranges::find_if(axes, [&](int64_t a) { return std::abs(a - axis) == 1; });
    if (joint && neighbour != axes.end()) {
      next = &*p.taps[static_cast<size_t>(std::max(axis, *neighbour))];
      axis = std::min(axis, *neighbour);
      axes.erase(neighbour);
    }
    std::vector<int64_t> dims = now.view.dims;
    for (int64_t a = axis; a < axis + (next ? 2 : 1); ++a)
      dims[static_cast<size_t>(a)] = p.y.view.dims[static_cast<size_t>(a)];
    const DType type = p.o->mode == ResizeMode::nearest ? p.x.dtype : DType::f32;
    const Operand to = axes.empty() ? p.y : l.scratch(type, dims);
    lower_pass(l, *p.o, now, to, axis, *p.taps[static_cast<size_t>(axis)], next);
    now = to;
  }
  return true;
}

bool has_neighbours(const Target&, const Problem& p) {
  for (size_t i = 0; i + 1 < p.taps.size(); ++i) {
    if (p.taps[i] && p.taps[i + 1]) return true;
  }
  return false;
}

// What reading and writing takes, and adding up this many taps for each element.
std::vector<Candidate> estimated(const Target& target, const Problem& p, double dispatches, double taps) {
  const Rates r = rates_of(target.caps);
  const auto elements = static_cast<double>(p.y.view.elements());
  return one_candidate(dispatches * (r.dispatch_ns + 8 * elements / r.bytes_per_ns) +
                       compute_ns(r, 2 * taps * elements, {.cpu = 0.1, .gpu = 0.25}));
}
std::vector<Candidate> separate_candidates(const Target& target, const Problem& p) {
  double taps = 0;
  for (const std::optional<Taps>& t : p.taps) taps += t ? static_cast<double>(t->count) : 0;
  // In the first of two passes there are fewer elements, whether x grows or shrinks.
  return estimated(target, p, 1.75, taps);
}
std::vector<Candidate> joint_candidates(const Target& target, const Problem& p) {
  // Four neighbours share what they are made of.
  return estimated(target, p, 1, static_cast<double>(p.all_taps()) / 4);
}

constexpr Variant<Problem, bool> kVariants[] = {
    {"axis_by_axis", always, separate_candidates,
     [](Lowering& l, const Problem& p, const Candidate&) { return make_passes(l, p, false); }},
    {"two_axes", has_neighbours, joint_candidates,
     [](Lowering& l, const Problem& p, const Candidate&) { return make_passes(l, p, true); }},
};

// A c64 as two f32 side by side.
Operand as_floats(const Operand& x) {
  Operand out = x;
  out.dtype = DType::f32;
  for (int64_t& stride : out.view.strides) stride *= 2;
  out.view.offset *= 2;
  out.view.dims.push_back(2);
  out.view.strides.push_back(1);
  return out;
}

void Resize::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  Problem p{&o, l.in(0), l.out(), taps(l.in(0).view.dims, l.out().view.dims)};
  if (std::ranges::none_of(p.taps, [](const auto& t) { return t.has_value(); }))
    return lower_copy(l, p.x, p.y);
  if (p.x.dtype == DType::c64) {
    p.x = as_floats(p.x);
    p.y = as_floats(p.y);
    p.taps.emplace_back();
  }
  l.choose(kName, kVariants, p).make(l, p);
}

}  // namespace

Value resize(Value x, const ResizeOptions& options) {
  auto op = std::make_shared<Resize>();
  op->o = options;
  return x.graph().add_value(op, {x});
}

namespace ops {
void register_resize(OpTable& table) {
  table.add<Resize>(
      {.formula = "x with other sizes along some axes: its nearest elements, or sums of neighbours with "
                  "linear or cubic "
                  "weights",
       .operands = "x",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
       .samples = {
           "resize(T[2,3,5,7]) {axes=[2,3], scales=[2,2]}",
           "resize(T[1,3,17,9]) {axes=[-2,-1], sizes=[6,31], coordinates=\"align_corners\"}",
           "resize(T[2,5,6,8]) {axes=[1,2], scales=[2,0.7], coordinates=\"asymmetric\"}",
           "resize(T[1,2,9,8]) {axes=[2,3], sizes=[4,16], mode=\"cubic\"}",
           "resize(T[1,2,9,8]) {axes=[3,2], scales=[0.6,1.5], mode=\"cubic\", cubic_coeff=-0.5, "
           "exclude_outside=true, "
           "coordinates=\"half_pixel_symmetric\"}",
           "resize(T[2,33,17]) {axes=[1,2], scales=[0.2,0.3], antialias=true}",
           "resize(T[33,8]) {axes=[0], sizes=[5], mode=\"cubic\", antialias=true, exclude_outside=true}",
           "resize(T[1,3,4,5,6]) {axes=[2,3,4], scales=[1.5,2,3], coordinates=\"pytorch_half_pixel\"}",
           "resize(T[3,5,4]) {axes=[0,2], sizes=[1,9], coordinates=\"pytorch_half_pixel\"}",
           "resize(T[2,6,5]) {axes=[1,2], sizes=[9,4], coordinates=\"tf_crop_and_resize\", "
           "roi=[-0.3,0.2,1.1,0.7], "
           "outside=1}",
           "resize(T[2,6,8]) {axes=[1], sizes=[3], mode=\"nearest\", coordinates=\"tf_crop_and_resize\", "
           "roi=[0.4,1.6], outside=1}",
           "resize(T[1,2,5,7]) {scales=[1,1,2,3], mode=\"nearest\"}",
           "resize(T[1,7,6,4]) {axes=[1,2], sizes=[9,17], mode=\"nearest\", rounding=\"ceil\", "
           "coordinates=\"asymmetric\"}",
           "resize(T[2,9,8]) {axes=[1,2], sizes=[7,8], aspect=\"not_smaller\", mode=\"nearest\", "
           "rounding=\"floor\"}",
           "resize(T[3,4]) {sizes=[7,5], aspect=\"not_larger\", mode=\"nearest\", "
           "rounding=\"round_prefer_ceil\", "
           "coordinates=\"tf_half_pixel_for_nn\"}",
           "resize(T[1,1]) {sizes=[3,5]}",
           "resize(T[5]) {sizes=[1], coordinates=\"align_corners\"}",
           "resize(T[0,3,4]) {axes=[1,2], scales=[2,2]}",
           "resize(T[3,4]) {scales=[0.1,2]}",
           "resize(i32[2,3,5]) {axes=[1,2], scales=[2,2], mode=\"nearest\"}",
           "resize(c64[3,5]) {axes=[1], scales=[1.7], mode=\"nearest\"}",
           "resize(i8[3,257]) {axes=[1], scales=[0.5], mode=\"nearest\"}",
           "resize(bool[2,7,8]) {axes=[1], sizes=[12], mode=\"nearest\"}",
           // Past what one binding holds, in few and in many rows, and rows that are far apart.
           "resize(T[3,129,130]) {axes=[1,2], scales=[2,2]}",
           "resize(T[2,60001]) {axes=[1], scales=[1.5]}",
           "resize(T[40,6001]) {axes=[0], sizes=[2], antialias=true}",
           "resize(T[5,131,129]) {axes=[1,2], scales=[2,1.5], mode=\"nearest\"}",
       }});
}
}  // namespace ops

}  // namespace rlx
