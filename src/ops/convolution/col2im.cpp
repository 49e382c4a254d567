#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/col2im.wgsl.h"
#include "kernels/lowering.h"
#include "ops/convolution/window.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/staged.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/convolution.h"

namespace rlx {
namespace {

struct Col2Im final : OpOf<Col2Im>, WindowLists {
  static constexpr auto kName = "col2im";
  std::vector<int64_t> image, kernel;

  void visit_attributes(AttributeVisitor& v) override {
    v("image", image);
    v("kernel", kernel);
    visit_lists(v);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  // The kernel adds no negative numbers to positions.
  bool reads_view(int64_t, const View& view) const override {
    return std::ranges::all_of(view.strides, [](int64_t s) { return s >= 0; });
  }
  // Sums of up to as many numbers up to 2 as the kernel has elements.
  Tolerance tolerance(std::span<const TensorType>) const override {
    return {.ulps = 1, .terms = static_cast<double>(product(kernel)), .scale = 4};
  }

  Window window(size_t axis) const { return WindowLists::window(axis, kernel.size()); }
  int64_t windows(size_t axis) const {
    return window_count(kName, image[axis], kernel[axis], window(axis), axis).value();
  }
};

std::vector<TensorType> Col2Im::infer(const InferArgs& in) const {
  in.expect_count(1);
  in.expect_float(0);
  const Shape& x = in.shape(0);
  const auto spatial = std::ssize(kernel);
  if (spatial < 1 || spatial > 3 || std::ssize(image) != spatial)
    fail(
        "col2im: the image has {} sizes and the kernel {}; both must have one for each of 1 to 3 spatial "
        "axes",
        image.size(), kernel.size());
  check_list(kName, "image", image, spatial, 0);
  check_list(kName, "kernel", kernel, spatial, 1);
  check_lists(kName, spatial);
  int64_t count = 1;
  for (size_t i = 0; i < kernel.size(); ++i) count *= windows(i);
  const std::optional<Dim> channels = x.rank() == 3 ? Dim::exact_div(x[1], product(kernel)) : std::nullopt;
  if (!channels || !(x[2] == Dim(count)))
    fail("col2im: the columns {} must be [batch, channels * {}, {}] for this kernel and image", x.text(),
         product(kernel), count);
  Shape out{x[0], *channels};
  for (const int64_t n : image) out.push_back(n);
  return {TensorType{in.dtype(0), out}};
}

void Col2Im::reference(RefContext& r) const {
  RefTensor& y = r.out();
  std::vector<int64_t> dims = {y.dims[0] * y.dims[1]};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  for (size_t i = 0; i < kernel.size(); ++i) dims.push_back(windows(i));
  const int64_t pixels = product(image);
  const std::vector<int64_t> to = row_major_strides(image);
  for (int64_t i = 0; i < r.in(0).elements(); ++i) {
    int64_t rest = i;
    std::vector<int64_t> at(dims.size());
    for (size_t a = dims.size(); a-- > 0; rest /= dims[a]) at[a] = rest % dims[a];
    int64_t position = at[0] * pixels;
    bool inside = true;
    for (size_t a = 0; a < kernel.size(); ++a) {
      const Window w = window(a);
      const int64_t c = at[1 + kernel.size() + a] * w.stride + at[1 + a] * w.dilation - w.before;
      inside = inside && c >= 0 && c < image[a];
      position += c * to[a];
    }
    if (inside) y.real[static_cast<size_t>(position)] += r.in(0).real[static_cast<size_t>(i)];
  }
}

// x is [batch, channels, 3 kernel axes, 3 axes of windows], y [batch, channels, 3 spatial axes]; axes that
// the image does not have come first.
struct Problem {
  std::array<Window, 3> windows;
  std::array<int64_t, 3> first_tap = {0, 0, 0};  // that x begins with
  Operand x, y;
  bool adds = false;
};

// What to add to x's position for each tap that covers each place along an axis; as many for each.
struct Taps {
  int64_t count = 1;
  std::vector<int32_t> at;
};

Taps taps_of(const Problem& p, size_t axis) {
  const View& x = p.x.view;
  const Window& w = p.windows[axis];
  std::vector<std::vector<int32_t>> lists;
  Taps taps;
  for (int64_t i = 0; i < p.y.view.dims[axis + 2]; ++i) {
    std::vector<int32_t>& list = lists.emplace_back();
    for (int64_t k = 0; k < x.dims[axis + 2]; ++k) {
      const int64_t from = i + w.before - (p.first_tap[axis] + k) * w.dilation;
      if (from < 0 || from % w.stride != 0 || from / w.stride >= x.dims[axis + 5]) continue;
      list.push_back(to_i32(k * x.strides[axis + 2] + from / w.stride * x.strides[axis + 5]));
    }
    taps.count = std::max<int64_t>(taps.count, std::ssize(list));
  }
  for (std::vector<int32_t>& list : lists) {
    list.resize(static_cast<size_t>(taps.count), -1);
    taps.at.insert(taps.at.end(), list.begin(), list.end());
  }
  return taps;
}

Dispatch make_dispatch(Lowering& l, const Problem& p) {
  const std::array<Taps, 3> taps = {taps_of(p, 0), taps_of(p, 1), taps_of(p, 2)};
  std::vector<int32_t> all;
  for (const Taps& t : taps) all.insert(all.end(), t.at.begin(), t.at.end());
  const Dims& y = p.y.view.dims;
  const kernels::col2im::Params params = {.elements = to_u32(p.y.view.elements()),
                                          .length0 = to_u32(y[2]),
                                          .length1 = to_u32(y[3]),
                                          .length2 = to_u32(y[4]),
                                          .taps1 = to_u32(std::ssize(taps[0].at)),
                                          .taps2 = to_u32(std::ssize(taps[0].at) + std::ssize(taps[1].at))};
  return l.make<kernels::col2im>(
      {.x = p.x.with_view(p.x.view, 2), .taps = l.table(Tensor::of({std::ssize(all)}, all)), .y = p.y},
      params, ceil_div(p.y.view.elements(), kernels::col2im::GROUP),
      {.TAPS0 = to_u32(taps[0].count),
       .TAPS1 = to_u32(taps[1].count),
       .TAPS2 = to_u32(taps[2].count),
       .ADDS = p.adds});
}

// In halves until it can be bound: batches and channels, then rows of the image, then taps of the kernel if
// what they give may be added up.
void emit_parts(Lowering& l, const Problem& p) {
  Dispatch d = make_dispatch(l, p);
  if (fits(d, l.caps())) return l.emit(std::move(d));
  Problem low = p;
  Problem high = p;
  const auto longest = [](const View& v, int64_t begin, int64_t end) {
    const auto first = v.dims.begin() + begin;
    const auto it = std::ranges::find_if(first, v.dims.begin() + end, [](int64_t n) { return n > 1; });
    return it - v.dims.begin();
  };
  const auto halve = [](Operand& a, Operand& b, int64_t axis) {
    const int64_t length = a.view.dims[static_cast<size_t>(axis)];
    a.view = a.view.slice(axis, 0, length / 2);
    b.view = b.view.slice(axis, length / 2, length - length / 2);
    return length / 2;
  };
  if (const int64_t outer = longest(p.y.view, 0, 2); outer < 2) {
    halve(low.x, high.x, outer);
    halve(low.y, high.y, outer);
  } else if (const int64_t tap = longest(p.x.view, 2, 5); p.adds && tap < 5) {
    high.first_tap[static_cast<size_t>(tap - 2)] += halve(low.x, high.x, tap);
  } else if (const int64_t row = longest(p.y.view, 2, 5); row < 5) {
    const int64_t half = halve(low.y, high.y, row);
    high.windows[static_cast<size_t>(row - 2)].before += half;
  } else {
    return l.emit(std::move(d));  // reports what does not fit
  }
  emit_parts(l, low);
  emit_parts(l, high);
}

void Col2Im::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  const size_t missing = 3 - kernel.size();
  Problem p;
  p.y = l.out();
  while (p.y.view.rank() < 5) {
    p.y.view.dims.insert(p.y.view.dims.begin() + 2, 1);
    p.y.view.strides.insert(p.y.view.strides.begin() + 2, 0);
  }
  std::vector<int64_t> taps(missing, 1);
  taps.insert(taps.end(), kernel.begin(), kernel.end());
  std::vector<int64_t> counts(missing, 1);
  for (size_t i = 0; i < kernel.size(); ++i) {
    p.windows[missing + i] = window(i);
    counts.push_back(windows(i));
  }
  const auto by_role = [&](const Operand& columns) {
    View x = columns.view.split_axis(1, p.y.view.dims[1]);
    x = x.split_axis(2, taps[0]).split_axis(3, taps[1]).split_axis(5, counts[0]).split_axis(6, counts[1]);
    return columns.with_view(x);
  };
  p.x = by_role(l.in(0));
  // Parts of a transposed operand would be spread over all of its memory.
  if (!l.in(0).view.is_contiguous() && !fits(make_dispatch(l, p), l.caps()))
    p.x = by_role(lower_contiguous(l, l.in(0)));
  Problem one = p;
  for (int64_t axis = 0; axis < 2; ++axis) one.x.view = one.x.view.slice(axis, 0, 1);
  for (int64_t axis = 0; axis < 5; ++axis) one.y.view = one.y.view.slice(axis, 0, 1);
  if (fits(make_dispatch(l, one), l.caps())) return emit_parts(l, p);
  // The columns of one image cannot be bound: the sums of what some of their rows give.
  p.y = l.scratch(DType::f32, p.y.view.dims);
  p.adds = true;
  lower_fill(l, p.y, 0);
  emit_parts(l, p);
  Staged(l, l.out().view.dims).store(p.y.with_view(View::contiguous(l.out().view.dims)), l.out());
}

}  // namespace

Value col2im(Value columns, std::vector<int64_t> image, std::vector<int64_t> kernel,
             const WindowOptions& options) {
  auto op = std::make_shared<Col2Im>();
  op->image = std::move(image);
  op->kernel = std::move(kernel);
  op->strides = options.strides;
  op->dilations = options.dilations;
  op->pads = options.pads;
  return add_node(op, {columns});
}

namespace ops {
void register_col2im(OpTable& table) {
  table.add<Col2Im>(
      {.formula = "y[n, c, o*stride + k*dilation - pad..] = the sum of x[n, (c, k..), (o..)] over all o and "
                  "k that give "
                  "this index",
       .operands = "x: columns [batch, channels * kernel elements, windows]",
       .attributes = "image: the spatial sizes of the result\n"
                     "kernel: the size of the windows, for each spatial axis\n"
                     "strides: from one window to the next, for each spatial axis; empty: all 1\n"
                     "dilations: from one element of a window to the next, likewise\n"
                     "pads: of the image, cut off from the result: all begins, then all ends; "
                     "empty: none",
       .outputs = "y: [batch, channels, image..]",
       .types = "f32 f16 bf16",
       .variants = {"col2im"},
       .samples = {
           "col2im(T[2,18,20]) {image=[5,7], kernel=[2,3]}",
           "col2im(T[1,27,6]) {image=[7,5], kernel=[3,3], strides=[2,1], dilations=[1,2], pads=[0,0,0,1]}",
           "col2im(T[2,15,5]) {image=[17], kernel=[5], strides=[4], pads=[2,2]}",
           "col2im(T[1,2,3]) {image=[9], kernel=[1], strides=[4]}",
           "col2im(T[1,1,1]) {image=[1,1], kernel=[1,1]}",
           "col2im(T[1,16,24]) {image=[3,4,5], kernel=[2,2,2]}",
           "col2im(T[0,18,20]) {image=[5,7], kernel=[2,3]}",
           "col2im(T[3,36,1600]) {image=[40,40], kernel=[3,3], pads=[1,1,1,1]}",
           "col2im(T[1,9,22500]) {image=[150,150], kernel=[3,3], pads=[1,1,1,1]}"}});
}
}  // namespace ops

}  // namespace rlx
