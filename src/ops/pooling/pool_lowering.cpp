// How a pool becomes dispatches: any windows, or lines of neighbouring ones.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/pool.wgsl.h"
#include "kernels/pool_rows.wgsl.h"
#include "kernels/rates.h"
#include "ops/convolution/conv.h"
#include "ops/machinery/fill.h"
#include "ops/pooling/pool.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

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
  const int64_t plane = rows.out * columns.out;
  const auto planes = static_cast<double>(p.y.view.elements()) / static_cast<double>(plane);
  const auto width = static_cast<double>(needed(columns, reads_fours(p)) * depth.kernel);
  const auto walked = static_cast<double>((lines - 1) * std::min(rows.stride, rows.kernel) + rows.kernel);
  const double tasks = planes * static_cast<double>(ceil_div(rows.out, lines) * ceil_div(columns.out, 4));
  constexpr double place = 8;
  // Measured: on a CPU what is held from line to line lies in memory.
  const double held = lines > 1 && rates_of(target.caps).cpu ? 16 : 0;
  Candidate c{.ns = walk_ns(target, tasks, walked * width + (4 + held) * static_cast<double>(lines) + place),
              .constants = {{"LINES", to_u32(lines)}}};
  // Measured with windows of 3 x 3. All candidates are as far off, so ranks are right.
  if (rates_of(target.caps).cpu) c.own_ns = 1.7 * c.ns;
  return c;
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

std::vector<std::string> pool_variants() { return names_of(kVariants); }

}  // namespace rlx
