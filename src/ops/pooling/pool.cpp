#include "ops/pooling/pool.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/format.h"
#include "ir/reference.h"
#include "ops/convolution/window.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/ops/reductions.h"

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
  return add_node(pool_op(kind, std::move(kernel), options), {x});
}
}  // namespace

Value max_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options) {
  return pool(PoolKind::max, x, std::move(kernel), options);
}
PooledWithIndices max_pool_with_indices(Value x, std::vector<int64_t> kernel, const PoolOptions& options,
                                        PoolIndices indices, bool column_major) {
  if (indices == PoolIndices::none) fail("max_pool_with_indices: says `none` of the indices");
  auto op = pool_op(PoolKind::max, std::move(kernel), options);
  op->indices = indices;
  op->column_major = column_major;
  return named_outputs<PooledWithIndices>(add_node(op, {x}));
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
  return add_node(std::move(op), {x});
}
Value prod_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options) {
  return pool(PoolKind::prod, x, std::move(kernel), options);
}
Value lp_pool(Value x, std::vector<int64_t> kernel, double p, const PoolOptions& options) {
  auto op = pool_op(PoolKind::norm, std::move(kernel), options);
  op->p = p;
  return add_node(std::move(op), {x});
}

namespace ops {

void register_pool(OpTable& table) {
  struct Row {
    PoolKind kind;
    std::string_view formula;
    std::vector<std::string_view> samples;  // after the name
  };
  static const std::string common =
      "kernel: the size of a window along each spatial axis\n"
      "strides: steps between windows along each spatial axis; all 1 if empty\n"
      "dilations: steps between the elements of a window, likewise\n"
      "pads: padding at the beginning of each spatial axis, then at the end of each; none if empty\n"
      "ceil_mode: a last window may end outside if it begins inside\n"
      "layout: the position of the channel axis in x and y";
  static const std::string of_max =
      common +
      "\nindices: whether there is the output indices, and whether it counts elements of all of x or of the "
      "spatial axes alone\n"
      "column_major: indices count along the first spatial axis first, instead of the last";
  static const std::string of_mean = common + "\ncount_include_pad: padding counts as zeros";
  static const std::string of_norm = common + "\np: the exponent of the norm, above 0";
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
    info.operands = "x: [batch, channels, 1 to 3 spatial axes], or as the layout says";
    info.attributes = row.kind == PoolKind::max    ? of_max
                      : row.kind == PoolKind::mean ? of_mean
                      : row.kind == PoolKind::norm ? of_norm
                                                   : common;
    info.outputs = "y: one element for each window, in the layout of x";
    if (row.kind == PoolKind::max) {
      info.outputs =
          "y: one element for each window, in the layout of x\n"
          "indices? (i64): where each of them is, the first among equals; -1 if the window is empty";
    }
    const bool any = row.kind == PoolKind::max || row.kind == PoolKind::min;
    info.types = any ? "f32 f16 bf16 i32 u32 i64 i8 u8" : "f32 f16 bf16";
    info.variants = pool_variants();
    for (const std::string_view sample : row.samples) info.samples.push_back(info.name + std::string(sample));
    info.make = [kind = row.kind] { return std::make_shared<Pool>(kind); };
    table.add(std::move(info));
  }
}

}  // namespace ops
}  // namespace rlx
