#include <cmath>

#include "ir/reference.h"
#include "ops/convolution/window.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/resampling/grid_sample.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

// Samples of x for every tap and window, times the weights. What lies outside x is zero.
struct DeformConv final : OpOf<DeformConv>, WindowLists {
  static constexpr auto kName = "deform_conv";
  int64_t groups = 1, offset_groups = 1;

  void visit_attributes(AttributeVisitor& v) override {
    visit_lists(v);
    v("groups", groups, 1);
    v("offset_groups", offset_groups, 1);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  Window window(size_t axis) const { return WindowLists::window(axis, 2); }
};

void check_inputs(const DeformConv& op, const InferArgs& in) {
  in.expect_count(3, 5);
  in.expect_float(0);
  for (int64_t i = 1; i < in.count(); ++i) {
    if (in.has(i)) in.expect_same_dtype(0, i);
  }
  const Shape& x = in.shape(0);
  const Shape& w = in.shape(1);
  if (x.rank() != 4 || w.rank() != 4)
    fail("deform_conv: x {} and the weight {} must have rank 4", x.text(), w.text());
  if (!w.is_static() || !x[1].is_static())
    fail("deform_conv: the sizes of the weight {} and the channels of x {} must be numbers", w.text(),
         x.text());
  if (op.groups < 1 || op.offset_groups < 1 || w[0].value() % op.groups != 0 ||
      x[1].value() % op.offset_groups != 0 || w[1].value() * op.groups != x[1].value()) {
    fail("deform_conv: x {} and the weight {} cannot be divided into {} groups and {} groups of offsets",
         x.text(), w.text(), op.groups, op.offset_groups);
  }
  op.check_lists(DeformConv::kName, 2);
}

std::vector<TensorType> DeformConv::infer(const InferArgs& in) const {
  check_inputs(*this, in);
  const Shape& x = in.shape(0);
  const Shape& w = in.shape(1);
  const Shape out{x[0], w[0], window_count(kName, x[2], w[2], window(0), 0),
                  window_count(kName, x[3], w[3], window(1), 1)};
  const Dim taps = w[2] * w[3] * Dim(offset_groups);
  const auto expect_shape = [&](int64_t i, std::string_view what, const Shape& wanted) {
    if (in.has(i) && !(in.shape(i) == wanted))
      fail("deform_conv: the {} has the shape {}; it must be {}", what, in.shape(i).text(), wanted.text());
  };
  expect_shape(2, "offset", {x[0], taps * Dim(2), out[2], out[3]});
  expect_shape(3, "bias", {w[0]});
  expect_shape(4, "mask", {x[0], taps, out[2], out[3]});
  return {TensorType{in.dtype(0), out}};
}

// An image at a place between its elements.
double sample(const double* image, int64_t height, int64_t width, double y, double x) {
  const double top = std::floor(y);
  const double left = std::floor(x);
  double sum = 0;
  for (const double i : {top, top + 1}) {
    for (const double j : {left, left + 1}) {
      if (!(i >= 0 && j >= 0 && i < static_cast<double>(height) && j < static_cast<double>(width))) continue;
      const int64_t at = static_cast<int64_t>(i) * width + static_cast<int64_t>(j);
      sum += image[at] * (1 - std::abs(i - y)) * (1 - std::abs(j - x));
    }
  }
  return sum;
}

void DeformConv::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const RefTensor& w = r.in(1);
  RefTensor& y = r.out();
  const RefTensor* bias = r.optional_in(3);
  const RefTensor* mask = r.optional_in(4);
  const int64_t pixels = y.dims[2] * y.dims[3];
  const int64_t taps = w.dims[2] * w.dims[3];
  const int64_t filters = w.dims[0] / groups;
  const int64_t moved = x.dims[1] / offset_groups;  // channels that move together
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t pixel = i % pixels;
    const int64_t m = i / pixels % w.dims[0];
    const int64_t n = i / pixels / w.dims[0];
    double sum = bias ? bias->real[static_cast<size_t>(m)] : 0;
    for (int64_t c = 0; c < w.dims[1]; ++c) {
      const int64_t channel = m / filters * w.dims[1] + c;
      const double* image = x.real.data() + (n * x.dims[1] + channel) * x.dims[2] * x.dims[3];
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t tap = (n * offset_groups + channel / moved) * taps + k;
        const double* offset = r.in(2).real.data() + 2 * tap * pixels + pixel;
        const auto place = [&](size_t axis, int64_t o, int64_t t, double by) {
          return static_cast<double>(o * window(axis).stride + t * window(axis).dilation -
                                     window(axis).before) +
                 by;
        };
        const double value =
            sample(image, x.dims[2], x.dims[3], place(0, pixel / y.dims[3], k / w.dims[3], offset[0]),
                   place(1, pixel % y.dims[3], k % w.dims[3], offset[pixels]));
        sum += value * (mask ? mask->real[static_cast<size_t>(tap * pixels + pixel)] : 1) *
               w.real[static_cast<size_t>((m * w.dims[1] + c) * taps + k)];
      }
    }
    y.real[static_cast<size_t>(i)] = sum;
  }
}

Tolerance DeformConv::tolerance(std::span<const TensorType> inputs) const {
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  const auto number = [](const Dim& d) { return static_cast<double>(d.value()); };
  const double terms = number(w[1]) * number(w[2]) * number(w[3]);
  // Samples have the errors of grid_sample, and are rounded to the type before they are multiplied.
  const double rounding = epsilon(inputs[0].dtype) / epsilon(DType::f32);
  return {.ulps = 16 + 8 * (number(x[2]) + number(x[3])) + 3 * rounding,
          .terms = terms,
          .scale = 8 * std::sqrt(std::max(terms, 1.0))};
}

std::optional<std::vector<Value>> DeformConv::expand(const ExpandArgs& in) const {
  const Shape x = in[0].shape();
  const Shape w = in[1].shape();
  const Shape to = in[2].shape();
  const Dim& rows = to[2];
  const Dim& columns = to[3];
  const Dim taps = w[2] * w[3];
  const Dim images = x[0] * Dim(offset_groups);
  const auto reals = [&](const Dim& count, int64_t start, int64_t step) {
    return cast(range(in.graph, count, start, step), DType::f32);
  };
  // All of [images, kernel height, kernel width, rows, columns], or 1 in place of some.
  const Value offset = cast(reshape(in[2], {images, w[2], w[3], 2, rows, columns}), DType::f32);
  const auto coordinate = [&](size_t axis, const Shape& taps_shape, const Shape& windows_shape) {
    const Window at = window(axis);
    const auto i = static_cast<int64_t>(axis);
    const Value moved = reshape(slice(offset, 3, i, 1), {images, w[2], w[3], rows, columns});
    const Value place = reshape(reals(to[i + 2], -at.before, at.stride), windows_shape) +
                        reshape(reals(w[i + 2], 0, at.dilation), taps_shape) + moved;
    return reshape(place, {images, taps * rows, columns, 1});
  };
  const Value down = coordinate(0, {1, w[2], 1, 1, 1}, {1, 1, 1, rows, 1});
  const Value right = coordinate(1, {1, 1, w[3], 1, 1}, {1, 1, 1, 1, columns});
  const Value image = reshape(in[0], {images, x[1].value() / offset_groups, x[2], x[3]});
  Value samples = sample_at(image, concat({right, down}, -1));
  if (in[4]) samples = samples * reshape(in[4], {images, 1, taps * rows, columns});
  const Dim depth = w[1] * taps;
  samples = reshape(samples, {x[0], groups, depth, rows * columns});
  const Value weight = reshape(in[1], {1, groups, w[0].value() / groups, depth});
  Value y = reshape(matmul(weight, samples), {x[0], w[0], rows, columns});
  if (in[3]) y = y + reshape(in[3], {1, w[0], 1, 1});
  return std::vector{y};
}

}  // namespace

Value deform_conv(Value x, Value w, Value offset, Value bias, Value mask, const DeformConvOptions& options) {
  auto op = std::make_shared<DeformConv>();
  op->strides = options.strides;
  op->dilations = options.dilations;
  op->pads = options.pads;
  op->groups = options.groups;
  op->offset_groups = options.offset_groups;
  return add_node(op, {x, w, offset, bias, mask});
}

namespace ops {
void register_deform_conv(OpTable& table) {
  table.add<DeformConv>(
      {.formula = "y[n, m, o] = bias[m] + sum_c,k w[m, c, k] * mask[n, k, o] * x[n, c] at o*stride + "
                  "k*dilation - pad + "
                  "offset[n, k, o], linear between elements and zero outside",
       .operands = "x: [batch, channels, height, width]\n"
                   "w: [filters, channels / groups, kernel height, kernel width]\n"
                   "offset: [batch, offset_groups * kernel elements * 2, result height, result "
                   "width], how far taps are moved, down and right\n"
                   "bias?: [filters], added to the result\n"
                   "mask?: [batch, offset_groups * kernel elements, result height, result "
                   "width], multiplies the taps; ones if left out",
       .attributes = "strides: from one window to the next, for each spatial axis; empty: all 1\n"
                     "dilations: from one element of a window to the next, likewise\n"
                     "pads: zeros around x: all begins, then all ends; empty: none\n"
                     "groups: parts of the channels, each with its own filters\n"
                     "offset_groups: parts of the channels, each with its own offsets and masks",
       .outputs = "y: [batch, filters, result height, result width]",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {
           "deform_conv(T[1,3,6,7], T[4,3,3,3], T[1,18,4,5])",
           "deform_conv(T[2,4,5,5], T[6,2,2,2], T[2,16,5,3], T[6], T[2,8,5,3]) {groups=2, offset_groups=2, "
           "strides=[1,2], pads=[1,1,0,1]}",
           "deform_conv(T[1,6,5,5], T[3,2,3,1], T[1,12,2,5], none, T[1,6,2,5]) {groups=3, offset_groups=2, "
           "dilations=[2,1], pads=[0,0,1,0]}",
           "deform_conv(T[1,1,1,1], T[1,1,1,1], T[1,2,1,1])",
           "deform_conv(T[0,3,6,7], T[4,3,3,3], T[0,18,4,5])"}});
}
}  // namespace ops

}  // namespace rlx
