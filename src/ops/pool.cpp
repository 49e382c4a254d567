#include "ops/pool.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/format.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/pool.wgsl.h"
#include "kernels/pool_rows.wgsl.h"
#include "kernels/rates.h"
#include "ops/conv.h"
#include "ops/copy.h"
#include "ops/fill.h"
#include "ops/op_table.h"
#include "ops/window.h"

namespace rlx {

int64_t spatial_axis(ConvLayout layout, int64_t spatial) {
  return spatial + (layout == ConvLayout::channels_first ? 2 : 1);
}
int64_t channel_axis(ConvLayout layout, int64_t rank) {
  return layout == ConvLayout::channels_first ? 1 : rank - 1;
}

// --- One axis ---

PoolAxis::Span PoolAxis::span(int64_t window) const {
  if (!bounds.empty()) return bounds[static_cast<size_t>(window)];
  const int64_t start = window * stride - before;
  const int64_t skipped = start < 0 ? ceil_div(-start, dilation) : 0;
  const int64_t begin = start + skipped * dilation;
  return {begin, std::max(begin, std::min(start + (kernel - 1) * dilation + 1, in))};
}

int64_t PoolAxis::taps_with_padding(int64_t window) const {
  const int64_t start = window * stride - before;
  return ceil_div(std::min(start + (kernel - 1) * dilation + 1, in + after) - start, dilation);
}

// --- The op ---

std::string_view Pool::name() const {
  static constexpr std::string_view names[] = {"max_pool", "min_pool",  "sum_pool",
                                               "avg_pool", "prod_pool", "lp_pool"};
  return names[static_cast<size_t>(kind)];
}

void Pool::visit_attributes(AttributeVisitor& v) {
  v("kernel", kernel);
  visit_lists(v);
  v("ceil_mode", ceil_mode, false);
  v.choice("layout", layout, {"channels_first", "channels_last"}, std::optional(ConvLayout::channels_first));
  if (kind == PoolKind::mean) v("count_include_pad", count_include_pad, false);
  if (kind == PoolKind::norm) v("p", p, 2);
  if (kind != PoolKind::max) return;
  v.choice("indices", indices, {"none", "tensor", "plane"}, std::optional(PoolIndices::none));
  v("column_major", column_major, false);
}

std::vector<TensorType> Pool::infer(const InferArgs& in) const {
  in.expect_count(1);
  const DType t = in.dtype(0);
  if (kind == PoolKind::max || kind == PoolKind::min) {
    in.expect_dtype(0, is_float(t) || is_integer(t), "a float or integer type");
  } else {
    in.expect_float(0);
  }
  const Shape& x = in.shape(0);
  const int64_t spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3) {
    fail("{}: x {} has rank {}; it must have 1 to 3 spatial axes, so a rank of 3 to 5", name(), x.text(),
         x.rank());
  }
  if (std::ssize(kernel) != spatial)
    fail("{}: `kernel` has {} numbers, but x {} has {} spatial axes", name(), kernel.size(), x.text(),
         spatial);
  for (const int64_t size : kernel) {
    if (size < 1) fail("{}: `kernel` contains {}; its numbers must be at least 1", name(), size);
  }
  check_lists(name(), spatial);
  if (!(p > 0)) fail("{}: p is {}; it must be above 0", name(), p);
  Shape y = x;
  for (size_t i = 0; i < kernel.size(); ++i) {
    Dim& length = y[spatial_axis(layout, static_cast<int64_t>(i))];
    length = window_count(name(), length, kernel[i], window(i, kernel.size()), i, ceil_mode);
  }
  if (indices == PoolIndices::none) return {TensorType{t, y}};
  return {TensorType{t, y}, TensorType{DType::i64, y}};
}

namespace {

PoolCase pool_case(const Pool& op, const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
  PoolCase c{.kind = op.kind,
             .layout = op.layout,
             .count_include_pad = op.count_include_pad,
             .p = op.p,
             .indices = op.indices,
             .column_major = op.column_major};
  const size_t spatial = op.kernel.size();
  for (size_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<size_t>(spatial_axis(op.layout, static_cast<int64_t>(i)));
    const Window s = op.window(i, spatial);
    c.axes[3 - spatial + i] = {.in = x[axis],
                               .out = y[axis],
                               .kernel = op.kernel[i],
                               .stride = s.stride,
                               .dilation = s.dilation,
                               .before = s.before,
                               .after = s.after};
  }
  return c;
}

}  // namespace

std::array<int64_t, 5> pool_index_steps(const PoolCase& c, int64_t channels) {
  const bool last = c.layout == ConvLayout::channels_last;
  const bool whole = c.indices == PoolIndices::tensor;
  std::array<int64_t, 5> steps = {};
  int64_t step = whole && last ? channels : 1;
  for (size_t i = 0; i < 3; ++i) {
    const size_t axis = c.column_major ? i : 2 - i;
    steps[axis] = step;
    step *= c.axes[axis].in;
  }
  if (whole) {
    steps[3] = last ? 1 : step;
    steps[4] = last ? step : step * channels;
  }
  return steps;
}

double pool_identity(PoolKind kind, DType t) {
  if (kind == PoolKind::prod) return 1;
  if (kind != PoolKind::max && kind != PoolKind::min) return 0;
  const bool largest = kind == PoolKind::min;
  switch (t) {
    case DType::u32:
      return largest ? UINT32_MAX : 0;
    case DType::u8:
      return largest ? 255 : 0;
    case DType::i8:
      return largest ? 127 : -128;
    case DType::i32:
    case DType::i64:  // has 32 bits on the device
      return largest ? INT32_MAX : INT32_MIN;
    default:
      return largest ? HUGE_VAL : -HUGE_VAL;
  }
}

std::optional<std::vector<Value>> Pool::expand(const ExpandArgs& in) const {
  if (indices != PoolIndices::none || kind == PoolKind::norm) return std::nullopt;
  if (std::ranges::any_of(pads, [](int64_t n) { return n != 0; })) return std::nullopt;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < kernel.size(); ++i) {
    axes.push_back(spatial_axis(layout, static_cast<int64_t>(i)));
    if (!in[0].shape()[axes.back()].is(kernel[i])) return std::nullopt;
  }
  using Reduction = Value (*)(Value, std::vector<int64_t>, bool);
  static constexpr Reduction reductions[] = {rlx::max, rlx::min, rlx::sum, rlx::mean, rlx::prod};
  return std::vector{reductions[static_cast<size_t>(kind)](in[0], axes, true)};
}

void Pool::reference(RefContext& r) const { reference_pool(pool_case(*this, r.in(0).dims, r.out().dims), r); }

void Pool::lower(Lowering& l) const { lower_pool(l, pool_case(*this, l.in(0).view.dims, l.out().view.dims)); }

Tolerance Pool::tolerance(std::span<const TensorType>) const {
  double elements = 1;
  for (const int64_t size : kernel) elements *= static_cast<double>(size);
  return pool_tolerance(kind, elements);
}

// As for reductions. A norm has no terms that cancel; a power has a few roundings, and so has the root.
Tolerance pool_tolerance(PoolKind kind, double elements) {
  constexpr double magnitude = 2;  // of the sweep's inputs
  switch (kind) {
    case PoolKind::sum:
      return {.ulps = 1, .terms = elements, .scale = magnitude * std::sqrt(elements)};
    case PoolKind::mean:
      return {.ulps = 4, .terms = elements, .scale = magnitude / std::sqrt(elements)};
    case PoolKind::prod:
      return {.ulps = 1, .terms = elements};
    case PoolKind::norm:
      return {.ulps = 16, .terms = elements};
    default:
      return {.ulps = 0};
  }
}

// --- Lowering ---

namespace {

constexpr int64_t kGrain = 4;  // what one invocation writes: no word is written by two dispatches

// Axes in the order in which the kernels count: images (and channels, if they come first), spatial axes,
// channels.
View counted(const View& v, ConvLayout layout) {
  const View all = conv_view(v, layout);
  return layout == ConvLayout::channels_first ? all : all.permute({0, 2, 3, 4, 1});
}

struct Problem {
  const PoolCase* c = nullptr;
  Operand x, y, indices;
  bool vectors = false;  // lines of x, or its channels if they come last, can be read four at a time

  Problem(const PoolCase& pool, const Operand& from, const Operand& to, const Operand& where)
      : c(&pool),
        x(from.with_view(counted(from.view, pool.layout), pool.layout == ConvLayout::channels_last ? 1 : 2)),
        y(to),
        indices(where) {
    const auto by_four = [](int64_t stride) { return stride % 4 == 0; };
    const View& v = x.view;
    vectors = v.dims[4] % 4 == 0 && v.strides[4] == 1 && by_four(v.offset) &&
              std::ranges::all_of(v.strides.begin(), v.strides.end() - 1, by_four);
  }

  bool last() const { return c->layout == ConvLayout::channels_last; }
  size_t spatial() const { return last() ? 1 : 2; }  // the first such axis of x
  // The most that a window has along an axis.
  int64_t taps(size_t axis) const {
    const PoolAxis& a = c->axes[axis];
    int64_t most = a.bounds.empty() ? a.kernel : 0;
    for (const PoolAxis::Span& s : a.bounds) most = std::max(most, s.end - s.begin);
    return most;
  }
  std::string key() const {
    return formatted("{} {} kernel {}x{}x{} strides {}x{} width {}", to_string(x.dtype),
                     last() ? "channels-last" : "channels-first", taps(0), taps(1), taps(2),
                     c->axes[1].stride, c->axes[2].stride, c->axes[2].out);
  }

  uint32_t nothing_bits() const {
    const double v = pool_identity(c->kind, x.dtype);
    if (is_float(x.dtype)) return std::bit_cast<uint32_t>(static_cast<float>(v));
    return static_cast<uint32_t>(static_cast<int64_t>(v));
  }

  // The parameters and constants that the kernels share.
  template <class K>
  typename K::Params numbers() const;
  template <class K>
  typename K::Spec spec() const;

  // Makes it those elements of y.
  template <class K>
  void cut(typename K::Operands& o, typename K::Params& params, int64_t begin, int64_t end) const;
  View::Range window(int64_t begin, int64_t end, bool in_fours) const;
};

template <class K>
typename K::Params Problem::numbers() const {
  const std::array<int64_t, 5> index = pool_index_steps(*c, x.view.dims[last() ? 4 : 1]);
  typename K::Params n{.nothing = nothing_bits(),
                       .image = static_cast<uint32_t>(index[last() ? 4 : 3]),
                       .power = static_cast<float>(c->p)};
  for (size_t a = 0; a < 3; ++a) {
    const PoolAxis& axis = c->axes[a];
    n.out[a] = to_u32(axis.out);
    n.taps[a] = to_u32(taps(a));
    n.length[a] = to_u32(axis.in);
    n.padded[a] = to_u32(to_i32(axis.before + axis.in + axis.after));
    n.before[a] = to_u32(axis.before);
    n.stride[a] = to_u32(axis.stride);
    n.dilation[a] = to_u32(axis.dilation);
    n.step[a] = static_cast<uint32_t>(x.view.strides[spatial() + a]);
    n.index_step[a] = static_cast<uint32_t>(index[a]);
  }
  n.out[3] = last() ? to_u32(x.view.dims[4]) : 1;
  n.step[3] = last() ? static_cast<uint32_t>(x.view.strides[4]) : 0;
  n.index_step[3] = last() ? static_cast<uint32_t>(index[3]) : 0;
  return n;
}

template <class K>
typename K::Spec Problem::spec() const {
  return {.KIND = static_cast<uint32_t>(c->kind),
          .POWER = c->p == 1   ? 1u
                   : c->p == 2 ? 2u
                               : 0u,
          .FLOAT = is_float(x.dtype),
          .PADDING_COUNTS = c->count_include_pad};
}

template <class K>
void Problem::cut(typename K::Operands& o, typename K::Params& params, int64_t begin, int64_t end) const {
  if (end - begin == y.view.elements()) return;
  o.x.window = window(begin, end, o.x.x4);
  params.safe = static_cast<uint32_t>(o.x.window.begin - x.view.offset);
  for (Operand* out : {&o.y, &o.indices}) out->window = {out->view.offset + begin, out->view.offset + end};
}

// Where the elements of the windows [begin, end) lie: from the first tap of each window as far as windows
// reach.
View::Range Problem::window(int64_t begin, int64_t end, bool in_fours) const {
  View taps = x.view;
  int64_t low = 0;
  int64_t high = 0;
  for (size_t a = 0; a < 3; ++a) {
    const PoolAxis& axis = c->axes[a];
    const int64_t step = x.view.strides[spatial() + a];
    int64_t reach = (axis.kernel - 1) * axis.dilation;
    taps.dims[spatial() + a] = axis.out;
    if (axis.bounds.empty()) {
      taps.strides[spatial() + a] = step * axis.stride;
      taps.offset -= axis.before * step;
    } else {
      taps.strides[spatial() + a] = 0;
      reach = axis.in - 1;
    }
    low += std::min<int64_t>(reach * step, 0);
    high += std::max<int64_t>(reach * step, 0);
  }
  const View::Range firsts = taps.range_of(begin, end);
  const View::Range all = x.view.range();
  // At least one element, or whole vectors if these are read.
  const int64_t grain = in_fours ? 4 : 1;
  const int64_t begin_at = std::clamp(firsts.begin + low, all.begin, all.end - grain) / grain * grain;
  return {begin_at, std::clamp(round_up(firsts.end + high, grain), begin_at + grain, all.end)};
}

// Invocations that each read and write so many elements.
double walk_ns(const Target& target, double invocations, double accesses) {
  const Rates r = rates_of(target.caps);
  return r.dispatch_ns +
         compute_ns(r, 2 * accesses * std::max(invocations, r.lanes), {.cpu = 0.1, .gpu = 0.25});
}

// --- Any windows ---

std::vector<Candidate> any_candidates(const Target& target, const Problem& p) {
  const auto taps = static_cast<double>(p.taps(0) * p.taps(1) * p.taps(2));
  constexpr double place = 16;  // to find the place of an element takes as long
  return one_candidate(walk_ns(target, static_cast<double>(p.y.view.elements()) / 4, 4 * taps + 4 + place));
}

// Elements of y from `begin` on.
Dispatch any_part(Lowering& l, const Problem& p, int64_t begin, int64_t length) {
  using Kernel = kernels::pool;
  std::vector<int64_t> bounds;
  for (const PoolAxis& a : p.c->axes) {
    for (const PoolAxis::Span& s : a.bounds) bounds.insert(bounds.end(), {s.begin, s.end});
  }
  Kernel::Operands o{.x = p.x, .y = p.y, .indices = p.indices};
  if (!bounds.empty()) o.bounds = l.table(Tensor::from_ints(DType::i32, {std::ssize(bounds)}, bounds));
  Kernel::Spec spec = p.spec<Kernel>();
  o.x.x4 = spec.FOUR = p.last() && p.vectors;
  if (p.taps(1) * p.taps(2) <= 9) {
    spec.TAPS_Y = to_u32(p.taps(1));
    spec.TAPS_Z = to_u32(p.taps(2));
  }
  Kernel::Params params = p.numbers<Kernel>();
  params.first = to_u32(begin);
  params.end = to_u32(begin + length);
  p.cut<Kernel>(o, params, begin, begin + length);
  return l.make<Kernel>(o, params, ceil_div(length, 4 * int64_t{Kernel::GROUP}), spec);
}

bool run_any(Lowering& l, const Problem& p, const Candidate&) {
  l.split(p.y.view.elements(), kGrain,
          [&](int64_t begin, int64_t length) { return any_part(l, p, begin, length); });
  return true;
}

// --- Lines of four neighbouring windows ---

// How far the first tap of a window, whose number is a multiple of four, lies after a multiple of four.
int64_t shift_of(const PoolAxis& a) { return round_up(a.before, 4) - a.before; }
// Elements of a line of x that four neighbouring windows need, from a multiple of four on or not.
int64_t needed(const PoolAxis& a, bool in_fours) {
  return (in_fours ? shift_of(a) : 0) + a.kernel + 3 * a.stride;
}
constexpr int64_t kHeldElements = 12;
bool reads_fours(const Problem& p) { return p.vectors && needed(p.c->axes[2], true) <= kHeldElements; }
bool writes_fours(const Problem& p) { return p.c->axes[2].out % 4 == 0; }

bool rows_apply(const Target& target, const Problem& p) {
  const PoolAxis& depth = p.c->axes[0];
  const PoolAxis& rows = p.c->axes[1];
  const PoolAxis& columns = p.c->axes[2];
  return !p.last() && columns.bounds.empty() && rows.dilation == 1 && columns.dilation == 1 &&
         needed(columns, false) <= kHeldElements &&
         // The first of equal elements is the one in the first plane.
         (p.c->indices == PoolIndices::none || depth.kernel == 1) &&
         // Words that other invocations write too would be changed atomically.
         (writes_fours(p) || elements_per_word(p.y.dtype, target.caps) == 1);
}

bool blocks_apply(const Target& target, const Problem& p) {
  const PoolAxis& rows = p.c->axes[1];
  return rows_apply(target, p) && rows.out > 1 && rows.kernel <= 4 * rows.stride;
}

Candidate candidate_of(const Target& target, const Problem& p, int64_t lines) {
  const auto& [depth, rows, columns] = p.c->axes;
  const double planes = static_cast<double>(p.y.view.elements() / (rows.out * columns.out));
  const auto width = static_cast<double>(needed(columns, reads_fours(p)) * depth.kernel);
  const auto walked = static_cast<double>((lines - 1) * std::min(rows.stride, rows.kernel) + rows.kernel);
  const double tasks = planes * static_cast<double>(ceil_div(rows.out, lines) * ceil_div(columns.out, 4));
  constexpr double place = 8;
  // Measured: on a CPU what is held from line to line lies in memory.
  const double held = lines > 1 && rates_of(target.caps).cpu ? 16 : 0;
  return {walk_ns(target, tasks, walked * width + (4 + held) * static_cast<double>(lines) + place),
          {{"LINES", to_u32(lines)}}};
}
std::vector<Candidate> rows_candidates(const Target& target, const Problem& p) {
  return {candidate_of(target, p, 1)};
}
std::vector<Candidate> blocks_candidates(const Target& target, const Problem& p) {
  return {candidate_of(target, p, 2), candidate_of(target, p, 4)};
}

bool run_rows(Lowering& l, const Problem& p, const Candidate& candidate) {
  using Kernel = kernels::pool_rows;
  const auto& [depth, rows, columns] = p.c->axes;
  Kernel::Spec spec = p.spec<Kernel>();
  spec.LINES = candidate.at("LINES");
  spec.DEPTH = depth.in > 1 || depth.out > 1 || depth.kernel > 1;
  spec.TAPS_Y = to_u32(rows.kernel);
  spec.TAPS_Z = to_u32(columns.kernel);
  spec.STRIDE_Y = to_u32(rows.stride);
  spec.STRIDE_Z = to_u32(columns.stride);
  spec.X4 = reads_fours(p);
  spec.Y4 = writes_fours(p);
  spec.SHIFT = spec.X4 ? to_u32(shift_of(columns)) : 0;
  const int64_t in_plane = ceil_div(rows.out, spec.LINES);
  const int64_t blocks = p.y.view.elements() / (rows.out * columns.out) * in_plane;
  // The element that block n begins with.
  const auto element = [&](int64_t n) {
    return (n / in_plane * rows.out + n % in_plane * spec.LINES) * columns.out;
  };
  const auto part = [&](int64_t begin, int64_t length) {
    Kernel::Params params = p.numbers<Kernel>();
    params.first = to_u32(begin);
    params.end = to_u32(begin + length);
    params.quads = to_u32(ceil_div(columns.out, 4));
    params.blocks = to_u32(in_plane);
    Kernel::Operands o{.x = p.x, .y = p.y, .indices = p.indices};
    o.x.x4 = spec.X4;
    o.y.x4 = o.indices.x4 = spec.Y4;
    p.cut<Kernel>(o, params, element(begin), element(begin + length));
    return l.make<Kernel>(o, params, ceil_div(length * params.quads, Kernel::GROUP), spec);
  };
  if (!fits(part(0, 1), l.caps())) return false;
  l.split(blocks, 1, part);
  return true;
}

constexpr Variant<Problem, bool> kVariants[] = {
    {"pool", always, any_candidates, run_any},
    {"rows", rows_apply, rows_candidates, run_rows},
    {"blocks", blocks_apply, blocks_candidates, run_rows},
};

void run(Lowering& l, const Problem& p) {
  const std::string op(Pool(p.c->kind).name());
  if (!l.choose(op, kVariants, p).make(l, p)) l.choose(op, kVariants[0], p).make(l, p);
}

// --- Windows that are too large for the bindings ---

bool is_window(const PoolAxis& a) {
  return a.kernel > 1 || a.stride > 1 || a.before > 0 || a.after > 0 || !a.bounds.empty();
}

// Whether the device can bind as few windows as an invocation makes: those in the middle, which are whole.
bool windows_fit(Lowering& l, const Problem& p) {
  const int64_t count = p.y.view.elements();
  const int64_t middle = count / 2 / kGrain * kGrain;
  return fits(any_part(l, p, middle, std::min(kGrain, count - middle)), l.caps());
}

// Along one axis after the other, the last first: a window is a box, and what it holds is what its lines hold
// together. So is the number of elements that a mean divides by.
void lower_by_axis(Lowering& l, const PoolCase& c, const Operand& x) {
  const DType type = is_float(x.dtype) ? DType::f32 : x.dtype;
  const int64_t missing = 5 - x.view.rank();
  std::vector<int64_t> dims = x.view.dims;
  Operand now = x;
  for (int64_t a = 2; a >= 0; --a) {
    const PoolAxis& axis = c.axes[static_cast<size_t>(a)];
    if (!is_window(axis)) continue;
    PoolCase one = c;
    for (int64_t b = 0; b < 3; ++b) {
      PoolAxis& rest = one.axes[static_cast<size_t>(b)];
      const int64_t length = b > a ? rest.out : rest.in;
      if (b != a) rest = {.in = length, .out = length};
    }
    dims[static_cast<size_t>(spatial_axis(c.layout, a - missing))] = axis.out;
    const bool ends = std::none_of(c.axes.begin(), c.axes.begin() + a, is_window);
    const Operand to = ends ? l.out() : l.scratch(type, dims);
    run(l, Problem(one, now, to, {}));
    now = to;
  }
}

}  // namespace

void lower_pool(Lowering& l, const PoolCase& c) {
  if (l.out().view.elements() == 0) return;
  const bool found = c.indices != PoolIndices::none;
  if (l.in(0).view.elements() == 0) {
    lower_fill(l, l.out(), pool_identity(c.kind, l.out().dtype));
    if (found) lower_fill(l, l.out(1), -1);
    return;
  }
  const auto problem = [&](const Operand& x) { return Problem(c, x, l.out(), found ? l.out(1) : Operand{}); };
  Operand x = l.in(0);
  // What is spread over memory cannot be cut.
  if (!x.view.is_contiguous() && !fits(any_part(l, problem(x), 0, l.out().view.elements()), l.caps()))
    x = lower_contiguous(l, x);
  const Problem p = problem(x);
  if (!found && std::ranges::count_if(c.axes, is_window) > 1 && !windows_fit(l, p)) {
    lower_by_axis(l, c, x);
  } else {
    run(l, p);
  }
}

// --- For C++ ---

namespace {
std::shared_ptr<Pool> pool_op(PoolKind kind, std::vector<int64_t> kernel, const PoolOptions& options) {
  auto op = std::make_shared<Pool>(kind);
  op->kernel = std::move(kernel);
  op->strides = options.strides;
  op->dilations = options.dilations;
  op->pads = options.pads;
  op->ceil_mode = options.ceil_mode;
  op->layout = options.layout;
  return op;
}
Value pool(PoolKind kind, Value x, std::vector<int64_t> kernel, const PoolOptions& options) {
  return x.graph().add_value(pool_op(kind, std::move(kernel), options), {x});
}
}  // namespace

Value max_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options) {
  return pool(PoolKind::max, x, std::move(kernel), options);
}
std::vector<Value> max_pool_with_indices(Value x, std::vector<int64_t> kernel, const PoolOptions& options,
                                         PoolIndices indices, bool column_major) {
  if (indices == PoolIndices::none) fail("max_pool_with_indices: says `none` of the indices");
  auto op = pool_op(PoolKind::max, std::move(kernel), options);
  op->indices = indices;
  op->column_major = column_major;
  const Value largest = x.graph().add_value(op, {x});
  return {largest, x.graph().value({largest.id().node, 1})};
}
Value min_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options) {
  return pool(PoolKind::min, x, std::move(kernel), options);
}
Value sum_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options) {
  return pool(PoolKind::sum, x, std::move(kernel), options);
}
Value avg_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options, bool count_include_pad) {
  auto op = pool_op(PoolKind::mean, std::move(kernel), options);
  op->count_include_pad = count_include_pad;
  return x.graph().add_value(std::move(op), {x});
}
Value prod_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options) {
  return pool(PoolKind::prod, x, std::move(kernel), options);
}
Value lp_pool(Value x, std::vector<int64_t> kernel, double p, const PoolOptions& options) {
  auto op = pool_op(PoolKind::norm, std::move(kernel), options);
  op->p = p;
  return x.graph().add_value(std::move(op), {x});
}

namespace ops {

void register_pool(OpTable& table) {
  struct Row {
    PoolKind kind;
    std::string_view formula;
    std::vector<std::string_view> samples;  // after the name
  };
  const Row rows[] = {
      {PoolKind::max,
       "largest x of each window, NaN if there is one; with indices also where it is in the tensor or the "
       "plane",
       {"(T[2,3,9,8]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}",
        "(T[2,2,9,16]) {kernel=[3,3], strides=[1,2], pads=[1,1,0,1], indices=\"plane\"}",
        "(T[1,2,7,12]) {kernel=[5,5], pads=[2,2,2,2]}", "(T[2,1,24]) {kernel=[2], strides=[3], pads=[0,0]}",
        "(T[1,2,7,6]) {kernel=[2,3], strides=[2,1], pads=[0,1,1,2], ceil_mode=true, indices=\"tensor\"}",
        "(T[2,3,7,9]) {kernel=[3,2], dilations=[2,3], pads=[2,1,2,1], indices=\"plane\"}",
        "(T[1,3,5,4,7]) {kernel=[2,3,2], strides=[1,2,2], pads=[0,1,1,1,1,0], indices=\"tensor\", "
        "column_major=true}",
        "(T[2,7,6,8]) {kernel=[3,2], strides=[2,2], layout=\"channels_last\", indices=\"tensor\"}",
        "(T[2,5,7,3]) {kernel=[2,2], pads=[1,0,0,1], layout=\"channels_last\", indices=\"plane\"}",
        "(T[3,1,257]) {kernel=[5], strides=[3]}", "(T[0,3,5,5]) {kernel=[2,2]}",
        "(T[1,1,1,1]) {kernel=[1,1]}",
        // Windows that hold nothing but padding.
        "(T[1,2,3,3]) {kernel=[2,2], pads=[3,0,0,3], indices=\"plane\"}",
        "(T[1,2,0]) {kernel=[2], pads=[2,1], indices=\"plane\"}",
        "(T[2,16,90,100]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}",
        "(T[1,1,700,400]) {kernel=[3,3], pads=[1,1,1,1], indices=\"tensor\"}",
        "(T[1,90,100,28]) {kernel=[3,3], strides=[2,2], layout=\"channels_last\"}",
        "(T[1,300,700,2]) {kernel=[280,600], strides=[15,90], layout=\"channels_last\"}"}},
      {PoolKind::min,
       "smallest x of each window, NaN if there is one",
       {"(T[2,3,9,8]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}",
        "(T[1,7,5,4]) {kernel=[2,2], dilations=[2,2], layout=\"channels_last\"}",
        "(T[1,2,3]) {kernel=[2], pads=[2,2]}"}},
      {PoolKind::sum,
       "sum of the x of each window",
       {"(T[2,3,9,8]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}", "(T[1,2,33]) {kernel=[4]}"}},
      {PoolKind::mean,
       "mean of the x of each window; with count_include_pad the padding counts as zeros",
       {"(T[2,3,9,8]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}",
        "(T[1,3,9,8]) {kernel=[3,3], pads=[1,1,1,1], count_include_pad=true}",
        "(T[1,2,7,6]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=true, count_include_pad=true}",
        "(T[1,3,9,7]) {kernel=[2,3], dilations=[3,2], pads=[1,1,2,2], ceil_mode=true, strides=[2,2]}",
        "(T[1,2,9,8,5]) {kernel=[3,2,2], dilations=[2,2,2], pads=[1,0,1,1,1,0], count_include_pad=true}",
        "(T[2,5,4,12]) {kernel=[3,3], pads=[1,1,1,1], layout=\"channels_last\"}",
        "(T[1,2,3,3]) {kernel=[2,2], pads=[3,0,0,3]}", "(T[1,3,2]) {kernel=[3], pads=[1,0]}",
        "(T[2,0,5]) {kernel=[3]}", "(T[1,20,110,120]) {kernel=[7,7], strides=[7,7]}",
        // One window is past what all bindings hold.
        "(T[1,1,400,800]) {kernel=[350,700], strides=[60,90], pads=[20,0,0,30]}"}},
      {PoolKind::prod,
       "product of the x of each window",
       {"(T[2,3,9,8]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}"}},
      {PoolKind::norm,
       "(sum of |x|^p of each window)^(1/p)",
       {"(T[2,3,9,8]) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}", "(T[1,2,9]) {kernel=[2], p=1}",
        "(T[1,2,5,6]) {kernel=[2,3], p=3, dilations=[1,2]}",
        "(T[1,4,5,3]) {kernel=[2,2], p=1.5, layout=\"channels_last\"}"}},
  };
  for (const Row& row : rows) {
    OpInfo info;
    info.name = Pool(row.kind).name();
    info.formula = row.formula;
    info.operands = "x";
    const bool any = row.kind == PoolKind::max || row.kind == PoolKind::min;
    info.types = any ? "f32 f16 bf16 i32 u32 i64 i8 u8" : "f32 f16 bf16";
    info.variants = names_of(kVariants);
    for (const std::string_view sample : row.samples) info.samples.push_back(info.name + std::string(sample));
    info.make = [kind = row.kind] { return std::make_shared<Pool>(kind); };
    table.add(std::move(info));
  }
}

}  // namespace ops
}  // namespace rlx
