#include "ops/resampling/grid_sample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/grid_sample.wgsl.h"
#include "kernels/lowering.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/staged.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/resampling.h"

namespace rlx {
namespace {

// Outside of x there are zeros, its end elements, or x mirrored: about the centres of its end elements if
// those are the corners, else about their edges.
struct GridSample final : OpOf<GridSample> {
  static constexpr auto kName = "grid_sample";
  GridSampleOptions o;
  bool in_elements = false;  // the grid has indices of x instead of numbers from -1 to 1

  void visit_attributes(AttributeVisitor& v) override {
    v.choice("mode", o.mode, {"nearest", "linear", "cubic"}, std::optional(ResizeMode::linear));
    v.choice("padding", o.padding, {"zeros", "border", "reflection"}, std::optional(SamplePadding::zeros));
    v("align_corners", o.align_corners, false);
    v("in_elements", in_elements, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  // The index of x, between two of its elements, that a number of the grid stands for.
  double place(double g, double length) const {
    return in_elements ? g : o.align_corners ? (g + 1) / 2 * (length - 1) : ((g + 1) * length - 1) / 2;
  }
};

std::vector<TensorType> GridSample::infer(const InferArgs& in) const {
  in.expect_count(2);
  in.expect_float(0);
  in.expect_float(1);
  const Shape& x = in.shape(0);
  const Shape& grid = in.shape(1);
  if (x.rank() < 3 || x.rank() > 5)
    fail("grid_sample: x {} has rank {}; it must have 1 to 3 spatial axes, so a rank of 3 to 5", x.text(),
         x.rank());
  const int64_t spatial = x.rank() - 2;
  if (grid.rank() != x.rank() || !grid[spatial + 1].is(spatial))
    fail("grid_sample: the grid {} must have rank {} and {} coordinates in its last axis, since x is {}",
         grid.text(), x.rank(), spatial, x.text());
  if (!(grid[0] == x[0]))
    fail("grid_sample: x {} and the grid {} have different batches", x.text(), grid.text());
  Shape out{x[0], x[1]};
  for (int64_t i = 0; i < spatial; ++i) {
    if (x[i + 2].is(0)) fail("grid_sample: x {} has nothing to sample along axis {}", x.text(), i + 2);
    out.push_back(grid[i + 1]);
  }
  return {TensorType{in.dtype(0), out}};
}

// --- Reference ---

// As `padded` in grid_sample.wgsl.
double padded(const GridSampleOptions& o, double x, double length) {
  if (o.padding == SamplePadding::zeros) return x;
  if (o.padding == SamplePadding::reflection) {
    const double low = o.align_corners ? 0 : -0.5;
    const double span = o.align_corners ? length - 1 : length;
    if (span == 0) return 0;
    const double distance = std::abs(x - low);
    const double rest = std::fmod(distance, span);
    x = low + (std::fmod(std::floor(distance / span), 2) == 0 ? rest : span - rest);
  }
  return std::clamp(x, 0.0, length - 1);
}

struct Tap {
  int64_t index = 0;  // -1: not taken
  double weight = 1;
};

double cubic_weight(double distance) {
  constexpr double a = -0.75;
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

std::vector<Tap> taps_at(const GridSample& op, double g, int64_t length) {
  const GridSampleOptions& o = op.o;
  const auto size = static_cast<double>(length);
  double x = op.place(g, size);
  const bool cubic = o.mode == ResizeMode::cubic;
  if (!cubic) x = padded(o, x, size);
  const auto tap = [&](double place, double weight) {
    if (cubic) place = padded(o, place, size);
    return Tap{place >= 0 && place <= size - 1 ? static_cast<int64_t>(place) : -1, weight};
  };
  if (o.mode == ResizeMode::nearest) return {tap(std::nearbyint(x), 1)};
  std::vector<Tap> taps;
  const double first = std::floor(x) - (cubic ? 1 : 0);
  for (int i = 0; i < (cubic ? 4 : 2); ++i) {
    const double distance = first + i - x;
    taps.push_back(tap(first + i, cubic ? cubic_weight(distance) : 1 - std::abs(distance)));
  }
  return taps;
}

// The sum over all taps of the axes from `axis` on, in the image that begins at `at`.
double sampled(const std::vector<double>& x, const std::vector<int64_t>& dims,
               const std::vector<std::vector<Tap>>& taps, size_t axis, int64_t at) {
  if (axis == taps.size()) return x[static_cast<size_t>(at)];
  double sum = 0;
  for (const Tap& tap : taps[axis]) {
    if (tap.index >= 0) sum += tap.weight * sampled(x, dims, taps, axis + 1, at * dims[axis + 2] + tap.index);
  }
  return sum;
}

void GridSample::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const size_t spatial = x.dims.size() - 2;
  const int64_t batch = x.dims[0];
  const int64_t channels = x.dims[1];
  if (r.out().elements() == 0) return;
  const int64_t places = r.out().elements() / batch / channels;
  for (int64_t i = 0; i < batch * places; ++i) {
    std::vector<std::vector<Tap>> taps(spatial);
    for (size_t axis = 0; axis < spatial; ++axis) {
      const auto coordinate = static_cast<size_t>(i) * spatial + spatial - 1 - axis;
      taps[axis] = taps_at(*this, r.in(1).real[coordinate], x.dims[axis + 2]);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t image = i / places * channels + c;
      r.out().real[static_cast<size_t>(image * places + i % places)] =
          sampled(x.real, x.dims, taps, 0, image);
    }
  }
}

Tolerance GridSample::tolerance(std::span<const TensorType> inputs) const {
  if (o.mode == ResizeMode::nearest) return {.ulps = 0};
  // Places are rounded relative to the length of their axis, and x can change by 4 between two elements.
  double lengths = 0;
  for (int64_t i = 2; i < inputs[0].shape.rank(); ++i)
    lengths += static_cast<double>(inputs[0].shape[i].value());
  return {.ulps = 8 + 8 * lengths, .terms = 16, .scale = o.mode == ResizeMode::cubic ? 8.0 : 2.0};
}

// --- Lowering ---

// x is [batch, channels, 3 spatial axes], the grid [batch, places.., coordinates], y [batch, channels,
// places..].
struct Problem {
  const GridSample* op;
  int64_t axes = 2;
  Operand x, grid, y;
  std::optional<View::Range> rows = {};  // of x's first own axis, whose part of the result is added to y

  int64_t row_axis() const { return 5 - axes; }
};

Dispatch make_dispatch(const Lowering& l, const Problem& p) {
  const Dims& x = p.x.view.dims;
  kernels::grid_sample::Params params = {};
  const int64_t places = p.y.view.elements() / x[0] / x[1];
  constexpr int64_t kBlock = 16;  // channels that share a place
  params.places = to_u32(places);
  params.channels = to_u32(x[1]);
  params.block = to_u32(std::min(kBlock, x[1]));
  params.blocks = to_u32(ceil_div(x[1], kBlock));
  params.tasks = to_u32(x[0] * params.blocks * places);
  params.x_channel = static_cast<uint32_t>(to_i32(p.x.view.strides[1]));
  params.y_channel = static_cast<uint32_t>(to_i32(p.y.view.strides[1]));
  for (size_t i = 0; i < 3; ++i) {
    params.length[i] = to_i32(x[i + 2]);
    params.stride[i] = static_cast<uint32_t>(to_i32(p.x.view.strides[i + 2]));
  }
  Operand seen = p.x.with_view(p.x.view, 1);
  if (p.rows) {
    params.row = to_u32(p.rows->begin);
    params.rows = to_u32(p.rows->end - p.rows->begin);
    seen.window = p.x.view.slice(p.row_axis(), p.rows->begin, p.rows->end - p.rows->begin).range();
  }
  // Channels are walked by the kernel itself.
  View y = p.y.view;
  y.dims.erase(y.dims.begin() + 1);
  y.strides.erase(y.strides.begin() + 1);
  Operand to = p.y.with_view(y, 1);
  to.window = p.y.view.range();
  constexpr std::array<uint32_t, 3> kTaps = {1, 2, 4};
  return l.make<kernels::grid_sample>(
      {.x = seen, .grid = p.grid.with_view(p.grid.view, p.grid.view.rank() - 1), .y = to}, params,
      ceil_div(params.tasks, kernels::grid_sample::GROUP),
      {.AXES = to_u32(p.axes),
       .TAPS = kTaps[static_cast<size_t>(p.op->o.mode)],
       .PADDING = static_cast<uint32_t>(p.op->o.padding),
       .CORNERS = p.op->o.align_corners,
       .IN_ELEMENTS = p.op->in_elements,
       .ADDS = p.rows.has_value()});
}

// Elements of the result along an axis of y, and what they need.
Problem part_of(const Problem& p, int64_t axis, int64_t begin, int64_t length) {
  Problem part = p;
  part.y.view = p.y.view.slice(axis, begin, length);
  if (axis < 2) part.x.view = p.x.view.slice(axis, begin, length);
  if (axis != 1) part.grid.view = p.grid.view.slice(axis == 0 ? 0 : axis - 1, begin, length);
  return part;
}

// In halves until it can be bound: batches and channels first, then rows of x if they may be cut, then
// places.
void emit_parts(Lowering& l, const Problem& p) {
  Dispatch d = make_dispatch(l, p);
  if (fits(d, l.caps())) return l.emit(std::move(d));
  const Dims& dims = p.y.view.dims;
  const int64_t axis = std::ranges::find_if(dims, [](int64_t n) { return n > 1; }) - dims.begin();
  if (axis >= 2 && p.rows && p.rows->end - p.rows->begin > 1) {
    const int64_t middle = (p.rows->begin + p.rows->end) / 2;
    for (const View::Range& rows : {View::Range{p.rows->begin, middle}, View::Range{middle, p.rows->end}}) {
      Problem part = p;
      part.rows = rows;
      emit_parts(l, part);
    }
  } else if (axis < std::ssize(dims)) {
    const int64_t length = dims[static_cast<size_t>(axis)];
    emit_parts(l, part_of(p, axis, 0, length / 2));
    emit_parts(l, part_of(p, axis, length / 2, length - length / 2));
  } else {
    l.emit(std::move(d));  // reports what does not fit
  }
}

void GridSample::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  Problem p{this, l.in(0).view.rank() - 2, l.in(0), l.in(1), l.out()};
  while (p.x.view.rank() < 5) {
    p.x.view.dims.insert(p.x.view.dims.begin() + 2, 1);
    p.x.view.strides.insert(p.x.view.strides.begin() + 2, 0);
  }
  // Parts of a transposed operand would be spread over all of its memory.
  const bool whole = fits(make_dispatch(l, p), l.caps());
  for (Operand* operand : {&p.x, &p.grid}) {
    if (!whole && !operand->view.is_contiguous()) *operand = lower_contiguous(l, *operand);
  }
  Problem one = p;
  for (int64_t axis = 0; axis < p.y.view.rank(); ++axis) one = part_of(one, axis, 0, 1);
  if (fits(make_dispatch(l, one), l.caps())) return emit_parts(l, p);
  // An image that cannot be bound: the sums of what each piece of it contributes.
  p.y = l.scratch(DType::f32, p.y.view.dims);
  p.rows = View::Range{0, p.x.view.dims[static_cast<size_t>(p.row_axis())]};
  lower_fill(l, p.y, 0);
  emit_parts(l, p);
  Staged(l, l.out().view.dims).store(p.y, l.out());
}

}  // namespace

Value grid_sample(Value x, Value grid, const GridSampleOptions& options) {
  auto op = std::make_shared<GridSample>();
  op->o = options;
  return add_node(op, {x, grid});
}

Value sample_at(Value x, Value places) {
  auto op = std::make_shared<GridSample>();
  op->in_elements = true;
  return add_node(op, {x, places});
}

namespace ops {
void register_grid_sample(OpTable& table) {
  table.add<GridSample>(
      {.formula = "y[n, c, p] = x[n, c] at the place grid[n, p]: its nearest element, or neighbours with "
                  "linear or cubic "
                  "weights; -1 and 1 are the ends of x",
       .operands = "x: [batch, channels, spatial..], with 1 to 3 spatial axes\n"
                   "grid (float): [batch, result spatial.., coordinates] from -1 to 1, that of "
                   "the last axis of x first",
       .attributes = "mode: how elements are weighted at places between them\n"
                     "padding: what lies outside x\n"
                     "align_corners: -1 and 1 are the centres of the first and last elements, "
                     "instead of their outer edges\n"
                     "in_elements: coordinates are indices of x, instead of numbers from -1 to 1",
       .outputs = "y: [batch, channels, result spatial..]",
       .types = "f32 f16 bf16",
       .variants = {"grid_sample"},
       .samples = {
           "grid_sample(T[2,3,5,7], T[2,4,6,2])",
           "grid_sample(T[2,3,5,7], f32[2,4,6,2]) {align_corners=true, padding=\"border\"}",
           "grid_sample(T[1,17,5,7], f32[1,4,3,2] in -5..5) {padding=\"reflection\"}",
           "grid_sample(T[1,2,1,7], f32[1,4,3,2] in -5..5) {padding=\"reflection\", align_corners=true}",
           "grid_sample(T[1,3,5,7], f32[1,9,8,2]) {mode=\"nearest\"}",
           "grid_sample(T[1,3,5,7], T[1,3,3,2]) {mode=\"nearest\", padding=\"reflection\", "
           "align_corners=true}",
           "grid_sample(T[2,2,6,5], f32[2,4,5,2]) {mode=\"cubic\"}",
           "grid_sample(T[1,2,6,5], f32[1,4,5,2]) {mode=\"cubic\", padding=\"border\", align_corners=true}",
           "grid_sample(T[1,2,6,5], f32[1,4,5,2] in -3..3) {mode=\"cubic\", padding=\"reflection\"}",
           "grid_sample(T[2,2,3,4,5], T[2,2,3,4,3])",
           "grid_sample(T[1,2,3,4,5], f32[1,2,3,4,3]) {mode=\"nearest\", padding=\"border\"}",
           "grid_sample(T[2,3,9], f32[2,17,1]) {padding=\"reflection\"}",
           "grid_sample(T[1,3,5,7], f32[1,4,5,2] in -1..7) {in_elements=true}",
           "grid_sample(T[1,1,1,1], T[1,1,1,2])",
           "grid_sample(T[0,3,5,7], T[0,4,6,2])",
           "grid_sample(T[2,3,5,7], T[2,0,6,2])",
           // Past what a binding holds: all together, the places, and a single image.
           "grid_sample(T[3,5,65,66], f32[3,33,40,2])",
           "grid_sample(T[1,1,5,5], f32[1,190,300,2]) {mode=\"nearest\"}",
           "grid_sample(T[1,2,700,300], f32[1,20,20,2]) {align_corners=true}",
       }});
}
}  // namespace ops

}  // namespace rlx
