// Resizing: sizes along some axes from scales or sizes, and the elements of x that each of y is made of. How
// the device computes it is in resize_lowering.cpp.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/fail.h"
#include "ir/literal.h"
#include "ir/reference.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "ops/resampling/reference_resize.h"
#include "ops/resampling/resize_lowering.h"
#include "ops/resampling/resize_taps.h"
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
    ResizeAxis a{
        .in = in[axis], .out = out[axis], .scale = scale_of(o, axes, in, i), .scaled = !o.scales.empty()};
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

void Resize::reference(RefContext& r) const {
  if (r.out().elements() > 0) reference_resize(o, axes_of(std::ssize(r.in(0).dims)), r);
}

Tolerance Resize::tolerance(std::span<const TensorType> inputs) const {
  if (o.mode == ResizeMode::nearest) return {.ulps = 0};
  // Each axis has a rounding of the weight, of the product and of each sum. Cubic weights add up to 1, but
  // their magnitudes do not: numbers up to 2 become twice as large along each axis at most.
  const auto axes = static_cast<double>(axes_of(inputs[0].shape.rank()).size());
  return {.ulps = 3 * axes, .terms = 16, .scale = o.mode == ResizeMode::linear ? 2 : 2 * std::pow(2, axes)};
}

void Resize::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  lower_resize(l, kName, {&o, l.in(0), l.out(), taps(l.in(0).view.dims, l.out().view.dims)});
}

}  // namespace

Value resize(Value x, const ResizeOptions& options) {
  auto op = std::make_shared<Resize>();
  op->o = options;
  return add_node(op, {x});
}

namespace ops {
void register_resize(OpTable& table) {
  table.add<Resize>(
      {.formula = "x with other sizes along some axes: its nearest elements, or sums of neighbours with "
                  "linear or cubic "
                  "weights",
       .operands = "x (any): what is resized; types other than floats need the mode nearest",
       .attributes =
           "axes: which axes are resized; all if empty\n"
           "scales: the factor for each of the axes; empty if sizes are given\n"
           "sizes: the new length of each of the axes; empty if scales are given\n"
           "mode: how an element of y is made of the elements of x around its place\n"
           "coordinates: which place in x an element of y stands for, named as in ONNX\n"
           "rounding: how that place is rounded if the mode is nearest\n"
           "aspect: whether sizes are exact, or limits for one scale that all axes share\n"
           "antialias: elements of a smaller y are made of all elements of x that they cover\n"
           "exclude_outside: places outside x have no weight, instead of counting as the nearest end of x\n"
           "cubic_coeff: the coefficient of cubic weights\n"
           "roi: for tf_crop_and_resize, the region of x: where it begins along each axis, then where it "
           "ends, as parts of the length\n"
           "outside: for tf_crop_and_resize, the element for a place outside x",
       .outputs = "y (any): in the type of x",
       .types = "f32 f16 bf16",
       .variants = resize_variants(),
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
           // The corners of y are those of x, whatever the scale leaves.
           "resize(T[2,7]) {axes=[1], scales=[2.3], coordinates=\"align_corners\"}",
           "resize(T[9,7]) {scales=[1.4,0.6], mode=\"cubic\", coordinates=\"align_corners\"}",
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
