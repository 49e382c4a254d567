#include "base/checked.h"
#include "ir/reference.h"
#include "kernels/lowering.h"
#include "ops/convolution/window.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/convolution.h"

namespace rlx {
namespace {

struct Im2Col final : OpOf<Im2Col>, WindowLists {
  static constexpr auto kName = "im2col";
  std::vector<int64_t> kernel;

  void visit_attributes(AttributeVisitor& v) override {
    v("kernel", kernel);
    visit_lists(v);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;

  Window window(size_t axis) const { return WindowLists::window(axis, kernel.size()); }
  // All windows of a padded image, as a view of it: [batch, channels, kernel.., windows..].
  View windows(const View& padded) const;
  std::vector<int64_t> padded_dims(std::vector<int64_t> x) const;
  // Where x lies in the padded image.
  View inside(View padded, const std::vector<int64_t>& x) const;
};

std::vector<TensorType> Im2Col::infer(const InferArgs& in) const {
  in.expect_count(1);
  const Shape& x = in.shape(0);
  const auto spatial = std::ssize(kernel);
  if (spatial == 0 || x.rank() != spatial + 2)
    fail(
        "im2col: x {} must be [batch, channels, spatial...], with as many spatial axes as the kernel has: {}",
        x.text(), spatial);
  check_list(kName, "kernel", kernel, spatial, 1);
  check_lists(kName, spatial);
  Dim rows = x[1];
  Dim windows = 1;
  for (size_t i = 0; i < kernel.size(); ++i) {
    rows *= Dim(kernel[i]);
    windows *= window_count(kName, x[static_cast<int64_t>(i) + 2], kernel[i], window(i), i);
  }
  return {TensorType{in.dtype(0), Shape{x[0], rows, windows}}};
}

std::vector<int64_t> Im2Col::padded_dims(std::vector<int64_t> x) const {
  for (size_t i = 0; i < kernel.size(); ++i) x[i + 2] += window(i).before + window(i).after;
  return x;
}

View Im2Col::inside(View padded, const std::vector<int64_t>& x) const {
  for (size_t i = 0; i < kernel.size(); ++i)
    padded = padded.slice(static_cast<int64_t>(i) + 2, window(i).before, x[i + 2]);
  return padded;
}

View Im2Col::windows(const View& padded) const {
  View out = padded.slice_axes(0, 2);
  for (size_t i = 0; i < kernel.size(); ++i) {
    out.dims.push_back(kernel[i]);
    out.strides.push_back(padded.strides[i + 2] * window(i).dilation);
  }
  for (size_t i = 0; i < kernel.size(); ++i) {
    out.dims.push_back(
        window_count(kName, padded.dims[i + 2], kernel[i], {window(i).stride, window(i).dilation}, i)
            .value());
    out.strides.push_back(padded.strides[i + 2] * window(i).stride);
  }
  return out;
}

void Im2Col::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  RefTensor padded = RefTensor::zeros(x.dtype, padded_dims(x.dims));
  const View all = View::contiguous(padded.dims);
  visit_both(x, padded, [&](const auto& from, auto& to) {
    auto next = from.begin();
    inside(all, x.dims).for_each_position([&](int64_t at) { to[static_cast<size_t>(at)] = *next++; });
  });
  visit_both(padded, r.out(), [&](const auto& from, auto& to) { to = gather_view(from, windows(all)); });
}

void Im2Col::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  Operand x = l.in(0);
  const std::vector<int64_t> dims = padded_dims(x.view.dims);
  if (dims != x.view.dims) {
    const Operand padded = l.scratch(x.dtype, dims);
    lower_fill(l, padded, 0);
    if (x.view.elements() > 0) lower_copy_into(l, x, padded.with_view(inside(padded.view, x.view.dims)));
    x = padded;
  }
  const View all = windows(x.view);
  lower_copy(l, x.with_view(all), l.out().with_view(*l.out().view.reshape(all.dims)));
}

}  // namespace

Value im2col(Value x, std::vector<int64_t> kernel, const WindowOptions& options) {
  auto op = std::make_shared<Im2Col>();
  op->kernel = std::move(kernel);
  op->strides = options.strides;
  op->dilations = options.dilations;
  op->pads = options.pads;
  return add_node(op, {x});
}

namespace ops {
void register_im2col(OpTable& table) {
  table.add<Im2Col>(
      {.formula = "y[n, (c, k..), (o..)] = x[n, c, o*stride + k*dilation - pad..], zero outside",
       .operands = "x: [batch, channels, spatial..]",
       .attributes = "kernel: the size of the windows, for each spatial axis\n"
                     "strides: from one window to the next, for each spatial axis; empty: all 1\n"
                     "dilations: from one element of a window to the next, likewise\n"
                     "pads: zeros around x: all begins, then all ends; empty: none",
       .outputs = "y: [batch, channels * kernel elements, windows]",
       .types = "f32 f16 bf16 i32 u8 c64",
       .variants = {"copy"},
       .samples = {"im2col(T[2,3,5,6]) {kernel=[3,2]}",
                   "im2col(T[1,2,7,5]) {kernel=[3,3], strides=[2,1], dilations=[1,2], pads=[1,2,0,1]}",
                   "im2col(T[2,3,17]) {kernel=[5], strides=[7]}", "im2col(T[1,1,1,1]) {kernel=[1,1]}",
                   "im2col(T[1,2,3,4,5]) {kernel=[2,2,2], pads=[0,1,0,0,0,1]}",
                   "im2col(T[0,3,5,6]) {kernel=[3,2]}", "im2col(T[1,2,0,3]) {kernel=[1,2], pads=[1,0,0,0]}",
                   "im2col(T[1,9,60,61]) {kernel=[3,3], pads=[1,1,1,1]}"}});
}
}  // namespace ops

}  // namespace rlx
