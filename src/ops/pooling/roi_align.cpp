#include <algorithm>
#include <cmath>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/roi_align.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/staged.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/pooling.h"

namespace rlx {
namespace {

// roi_align(x, rois, images); see RoiAlignOptions.
struct RoiAlign final : OpOf<RoiAlign> {
  static constexpr auto kName = "roi_align";
  int64_t height = 1, width = 1;
  double scale = 1;
  int64_t sampling_ratio = 0;
  bool half_pixel = true;
  RoiMode mode = RoiMode::avg;

  void visit_attributes(AttributeVisitor& v) override {
    v("height", height, 1);
    v("width", width, 1);
    v("scale", scale, 1);
    v("sampling_ratio", sampling_ratio, 0);
    v("half_pixel", half_pixel, true);
    v.choice("mode", mode, {"avg", "max"}, std::optional(RoiMode::avg));
  }
  bool types_numbers(int64_t input) const override { return input == 0; }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    if (input == 1) return ValueRange{.low = 0, .high = 8 / scale};
    return input == 2 ? values_between(0, inputs[0].shape[0] - 1) : std::nullopt;
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  double shift() const { return half_pixel ? 0.5 : 0; }
  // Regions without a pixel's width count as one pixel wide, except where pixel centres lie at .5.
  double least() const { return half_pixel ? -std::numeric_limits<float>::max() : 1; }
};

std::vector<TensorType> RoiAlign::infer(const InferArgs& in) const {
  in.expect_count(3);
  in.expect_float(0);
  in.expect_float(1);
  in.expect_dtype(2, is_integer(in.dtype(2)), "an integer type");
  const Shape& x = in.shape(0);
  const Shape& rois = in.shape(1);
  if (x.rank() != 4) fail("roi_align: x {} has rank {}; it must be [n, channels, h, w]", x.text(), x.rank());
  if (rois.rank() != 2 || !rois[1].is(4) || !(in.shape(2) == Shape{rois[0]})) {
    fail("roi_align: the regions {} and their images {} must have the shapes [regions, 4] and [regions]",
         rois.text(), in.shape(2).text());
  }
  if (height < 1 || width < 1 || sampling_ratio < 0)
    fail("roi_align: the height {} and width {} must be at least 1, the sampling ratio {} at least 0", height,
         width, sampling_ratio);
  if (!rois[0].is(0) && (x[0].is(0) || x[2].is(0) || x[3].is(0)))
    fail("roi_align: there are regions of x {}, which has no pixels", x.text());
  return {TensorType{in.dtype(0), {rois[0], x[1], height, width}}};
}

// Along one axis: two neighbours and the weight of the second.
struct Between {
  int64_t low = 0, high = 0;
  double weight = 0;
  bool outside = false;
};
Between between(double at, int64_t length) {
  if (!(at >= -1 && at <= static_cast<double>(length))) return {.outside = true};
  const double p = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(p);
  if (low + 1 >= length) return {length - 1, length - 1, 0, false};
  return {low, low + 1, p - static_cast<double>(low), false};
}

// The points of one bin along one axis.
std::vector<Between> points(double start, double size, int64_t bin, int64_t bins, int64_t sampling,
                            int64_t length) {
  const double step = size / static_cast<double>(bins);
  const int64_t count =
      sampling > 0 ? sampling
                   : static_cast<int64_t>(std::ceil(std::max(size / static_cast<double>(bins), 0.0)));
  std::vector<Between> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(between(start + static_cast<double>(bin) * step +
                              (static_cast<double>(i) + 0.5) * step / static_cast<double>(count),
                          length));
  }
  return out;
}

// What the points of a bin give; a plane of x has rows of `width` elements.
double bin_value(const double* plane, int64_t width, const std::vector<Between>& rows,
                 const std::vector<Between>& columns, RoiMode mode) {
  double sum = 0;
  std::optional<double> most;
  for (const Between& v : rows) {
    for (const Between& h : columns) {
      const auto part = [&](int64_t row, int64_t column, double weight) {
        return v.outside || h.outside ? 0 : weight * plane[row * width + column];
      };
      for (const double n :
           {part(v.low, h.low, (1 - v.weight) * (1 - h.weight)),
            part(v.low, h.high, (1 - v.weight) * h.weight), part(v.high, h.low, v.weight * (1 - h.weight)),
            part(v.high, h.high, v.weight * h.weight)}) {
        sum += n;
        if (!most || std::isnan(n) || *most < n) most = n;
      }
    }
  }
  if (mode == RoiMode::max) return std::isnan(sum) ? sum : most.value_or(0);
  return sum / static_cast<double>(std::max<size_t>(rows.size() * columns.size(), 1));
}

void RoiAlign::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const std::vector<int64_t>& y = r.out().dims;
  auto to = r.out().real.begin();
  for (int64_t region = 0; region < y[0]; ++region) {
    double at[4];
    for (size_t i = 0; i < 4; ++i)
      at[i] = r.in(1).real[static_cast<size_t>(4 * region) + i] * scale - shift();
    const double wide = std::max(at[2] - at[0], least());
    const double high = std::max(at[3] - at[1], least());
    const int64_t image = std::clamp<int64_t>(r.in(2).ints[static_cast<size_t>(region)], 0, x.dims[0] - 1);
    for (int64_t c = 0; c < y[1]; ++c) {
      const double* plane = x.real.data() + (image * x.dims[1] + c) * x.dims[2] * x.dims[3];
      for (int64_t i = 0; i < height; ++i) {
        const std::vector<Between> rows = points(at[1], high, i, height, sampling_ratio, x.dims[2]);
        for (int64_t j = 0; j < width; ++j) {
          const std::vector<Between> columns = points(at[0], wide, j, width, sampling_ratio, x.dims[3]);
          *to++ = bin_value(plane, x.dims[3], rows, columns, mode);
        }
      }
    }
  }
}

// A point is off by some roundings of its coordinates, which are below 128 in the sweep, and x changes by up
// to 4 from one pixel to the next.
Tolerance RoiAlign::tolerance(std::span<const TensorType>) const { return {.ulps = 16, .scale = 128 * 4}; }

class RoiLowering {
 public:
  RoiLowering(Lowering& l, const RoiAlign& op)
      : l_(l), op_(op), x_(l.in(0)), y_(l.out()), end_row_(x_.view.dims[2]) {}

  void run() {
    const std::vector<int64_t>& dims = x_.view.dims;
    // What is spread over memory cannot be cut.
    if (!binds(part(0, dims[0], 0, dims[1])) && !x_.view.is_contiguous()) x_ = lower_contiguous(l_, x_);
    int64_t rows = dims[2];
    for (; rows > 1 && !binds(part(0, 1, 0, 1)); end_row_ = rows) rows = ceil_div(rows, 2);
    if (rows == dims[2]) {
      run(0, dims[0], 0, dims[1]);
    } else {
      run_by_rows(rows);
    }
  }

 private:
  // Images and channels in these ranges.
  Dispatch part(int64_t image, int64_t end_image, int64_t channel, int64_t end_channel) const {
    const View& v = x_.view;
    const View planes = v.slice(0, image, end_image - image).slice(1, channel, end_channel - channel);
    const View some = planes.slice(2, row_, end_row_ - row_);
    const kernels::roi_align::Operands o{
        .x = x_.with_view(some, 2), .rois = l_.in(1), .images = l_.in(2), .y = y_};
    Dispatch d = l_.make<kernels::roi_align>(
        o,
        {.channels = to_u32(v.dims[1]),
         .height = to_u32(op_.height),
         .width = to_u32(op_.width),
         .rows = to_u32(v.dims[2]),
         .columns = to_u32(v.dims[3]),
         .row = to_u32(row_),
         .end_row = to_u32(end_row_),
         .row_step = static_cast<uint32_t>(v.strides[2]),
         .column_step = static_cast<uint32_t>(v.strides[3]),
         .sampling = to_u32(op_.sampling_ratio),
         .images = to_u32(v.dims[0]),
         .image = to_u32(image),
         .end_image = to_u32(end_image),
         .channel = to_u32(channel),
         .end_channel = to_u32(end_channel),
         .scale = static_cast<float>(op_.scale),
         .shift = static_cast<float>(op_.shift()),
         .least = static_cast<float>(op_.least())},
        0, {.MAX = op_.mode == RoiMode::max, .PART = end_row_ - row_ < v.dims[2]});
    d.partial = planes.elements() < v.elements();
    return d;
  }

  // Where not even a plane can be bound: what so many rows of all planes give, joined to what those before
  // gave.
  void run_by_rows(int64_t rows) {
    Staged staged(l_, l_.out().view.dims);
    Operand all;
    const std::vector<int64_t>& dims = x_.view.dims;
    for (row_ = 0; row_ < dims[2]; row_ += rows) {
      end_row_ = std::min(row_ + rows, dims[2]);
      y_ = l_.scratch(DType::f32, l_.out().view.dims);
      run(0, dims[0], 0, dims[1]);
      const bool max = op_.mode == RoiMode::max;
      all = all.present() ? staged.map(max ? "maximum($0,$1)" : "add($0,$1)", {all, y_}) : y_;
    }
    staged.store(all, l_.out());
  }

  // The pixels of a region can be anywhere in a plane, so these rows of planes are not cut.
  void run(int64_t image, int64_t end_image, int64_t channel, int64_t end_channel) {
    Dispatch d = part(image, end_image, channel, end_channel);
    const int64_t middle = (image + end_image) / 2;
    const int64_t middle_channel = (channel + end_channel) / 2;
    if (middle > image && !binds(d)) {
      run(image, middle, channel, end_channel);
      run(middle, end_image, channel, end_channel);
    } else if (middle_channel > channel && !binds(d)) {
      run(image, end_image, channel, middle_channel);
      run(image, end_image, middle_channel, end_channel);
    } else {
      l_.flat(std::move(d));
    }
  }

  // Beside a piece of y as large as flat() may make it.
  bool binds(Dispatch d) const {
    Operand& y = d.operands.back();
    const auto bytes = static_cast<int64_t>(device_bytes(y.dtype));
    const auto most = static_cast<int64_t>(l_.caps().max_binding_bytes) / bytes;
    y.window = {y.view.offset, y.view.offset + std::min(y.view.elements(), most)};
    d.groups = 1;
    return fits(d, l_.caps());
  }

  Lowering& l_;
  const RoiAlign& op_;
  Operand x_, y_;
  int64_t row_ = 0, end_row_;
};

void RoiAlign::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  RoiLowering(l, *this).run();
}

}  // namespace

Value roi_align(Value x, Value rois, Value images, const RoiAlignOptions& options) {
  auto op = std::make_shared<RoiAlign>();
  op->height = options.height;
  op->width = options.width;
  op->scale = options.scale;
  op->sampling_ratio = options.sampling_ratio;
  op->half_pixel = options.half_pixel;
  op->mode = options.mode;
  return add_node(op, {x, rois, images});
}

namespace ops {
void register_roi_align(OpTable& table) {
  table.add<RoiAlign>(
      {.formula =
           "mean or maximum of interpolated points in height x width bins of regions [x1, y1, x2, y2] of x",
       .operands = "x: images [n, channels, h, w]\n"
                   "rois (float): [regions, 4], the corners x1, y1, x2, y2 of each region\n"
                   "images (integer): [regions], which image a region is of; clamped to those there are",
       .attributes =
           "height: how many bins a region has along its height\n"
           "width: how many bins a region has along its width\n"
           "scale: the factor from the coordinates of regions to those of x\n"
           "sampling_ratio: how many points a bin has along each axis; 0: as many as it has pixels\n"
           "half_pixel: the centres of pixels lie at .5\n"
           "mode: what is taken of the points of a bin",
       .outputs = "y: [regions, channels, height, width]",
       .types = "f32 f16 bf16",
       .variants = {"roi_align"},
       .samples = {
           "roi_align(T[2,3,9,12], T[5,4] in 0..12, i64[5] in 0..1) {height=3, width=4, scale=0.75, "
           "sampling_ratio=2}",
           "roi_align(T[1,2,8,7], T[4,4] in -3..11, i32[4] in 0..0) {height=2, width=2, half_pixel=false}",
           "roi_align(T[3,2,17,5], T[7,4] in 0..18, i64[7] in -1..3) {height=3, width=1, "
           "sampling_ratio=3, mode=\"max\"}",
           "roi_align(T[1,1,1,1], T[2,4] in 0..2, i64[2] in 0..0)",
           "roi_align(T[1,2,5,5], T[0,4], i64[0]) {height=2}",
           "roi_align(T[2,40,60,70], T[9,4] in 0..70, i64[9] in 0..1) {height=7, width=7, "
           "sampling_ratio=2}",
           // A plane is past what all bindings hold.
           "roi_align(T[1,2,400,500], T[6,4] in -5..120, i64[6] in 0..0) {height=2, width=3, scale=4, "
           "sampling_ratio=3}",
           "roi_align(T[1,1,400,500], T[6,4] in -5..120, i64[6] in 0..0) {height=2, width=3, scale=4, "
           "sampling_ratio=3, "
           "mode=\"max\"}"}});
}
}  // namespace ops

}  // namespace rlx
