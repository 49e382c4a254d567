// Axes are resized one after the other or, as a kernel of its own, two neighbours at once.
#include "ops/resampling/resize_lowering.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/rates.h"
#include "kernels/resize_nearest.wgsl.h"
#include "kernels/resize_weighted.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/rows.h"
#include "ops/rearrange/contiguous.h"
#include "ops/spectra/complex_views.h"

namespace rlx {
namespace {

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

// The axes in the order in which they are resized: those that shrink x most first. Among equals the last one,
// since elements are gathered one by one there, and later in fours.
std::vector<int64_t> order_of(const ResizeProblem& p) {
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

bool make_passes(Lowering& l, const ResizeProblem& p, bool joint) {
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

bool has_neighbours(const Target&, const ResizeProblem& p) {
  for (size_t i = 0; i + 1 < p.taps.size(); ++i) {
    if (p.taps[i] && p.taps[i + 1]) return true;
  }
  return false;
}

// What reading and writing takes, and adding up this many taps for each element.
std::vector<Candidate> estimated(const Target& target, const ResizeProblem& p, double dispatches,
                                 double taps) {
  const Rates r = rates_of(target.caps);
  const auto elements = static_cast<double>(p.y.view.elements());
  std::vector<Candidate> out = one_candidate(dispatches * (r.dispatch_ns + 8 * elements / r.bytes_per_ns) +
                                             compute_ns(r, 2 * taps * elements, {.cpu = 0.1, .gpu = 0.25}));
  // Measured: to find the place of an element takes as long as all of that.
  if (r.cpu) out[0].own_ns = out[0].ns + dispatches * 3 * elements / r.speed;
  return out;
}
std::vector<Candidate> separate_candidates(const Target& target, const ResizeProblem& p) {
  double taps = 0;
  for (const std::optional<Taps>& t : p.taps) taps += t ? static_cast<double>(t->count) : 0;
  // In the first of two passes there are fewer elements, whether x grows or shrinks.
  return estimated(target, p, 1.75, taps);
}
std::vector<Candidate> joint_candidates(const Target& target, const ResizeProblem& p) {
  // Four neighbours share what they are made of.
  return estimated(target, p, 1, static_cast<double>(p.all_taps()) / 4);
}

constexpr Variant<ResizeProblem, bool> kVariants[] = {
    {"axis_by_axis", always, separate_candidates,
     [](Lowering& l, const ResizeProblem& p, const Candidate&) { return make_passes(l, p, false); }},
    {"two_axes", has_neighbours, joint_candidates,
     [](Lowering& l, const ResizeProblem& p, const Candidate&) { return make_passes(l, p, true); }},
};

}  // namespace

std::string ResizeProblem::key() const {
  return formatted("{} taps {}", to_string(x.dtype), size_class(all_taps()));
}
int64_t ResizeProblem::all_taps() const {
  int64_t n = 1;
  for (const std::optional<Taps>& t : taps) n *= t ? t->count : 1;
  return n;
}

void lower_resize(Lowering& l, std::string_view op, ResizeProblem p) {
  if (std::ranges::none_of(p.taps, [](const auto& t) { return t.has_value(); }))
    return lower_copy(l, p.x, p.y);
  if (p.x.dtype == DType::c64) {
    p.x = as_floats(p.x);
    p.y = as_floats(p.y);
    p.taps.emplace_back();
  }
  l.choose(op, kVariants, p).make(l, p);
}
std::vector<std::string> resize_variants() { return names_of(kVariants); }

}  // namespace rlx
