#include "ops/convolution/conv.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ops/convolution/conv_problem.h"
#include "ops/convolution/window.h"
#include "ops/machinery/op_table.h"

namespace rlx {

// --- With conv_transpose ---

void ConvOp::visit_groups(AttributeVisitor& v) {
  v("groups", groups, 1);
  v.choice("layout", layout, {"channels_first", "channels_last"}, std::optional(ConvLayout::channels_first));
  v("epilogue", epilogue, {});
}

void ConvOp::check_inputs(std::string_view op, const InferArgs& in) const {
  if (in.count() < 2)
    fail("{}: takes x, a weight, a bias and the inputs of its epilogue, not {}", op, in.count());
  in.expect_dtype(0, is_float(in.dtype(0)) || in.dtype(0) == DType::i32, "a float type or i32");
  // Bytes less their zero point are i32, and weights without one can stay bytes.
  const bool bytes = in.dtype(0) == DType::i32 && (in.dtype(1) == DType::i8 || in.dtype(1) == DType::u8);
  if (!bytes || op != Conv::kName) in.expect_same_dtype(0, 1);
  const Shape& x = in.shape(0);
  const Shape& w = in.shape(1);
  if (x.rank() < 3 || x.rank() > 5) {
    fail("{}: x {} has rank {}; it must have 1 to 3 spatial axes, so a rank of 3 to 5", op, x.text(),
         x.rank());
  }
  check_lists(op, x.rank() - 2);
  if (groups < 1) fail("{}: the number of groups is {}; it must be at least 1", op, groups);
  if (w.rank() != x.rank()) {
    fail("{}: x {} has rank {} and the weight {} has rank {}; they must be equal", op, x.text(), x.rank(),
         w.text(), w.rank());
  }
  if (!w.is_static()) fail("{}: the sizes of the weight {} must be numbers", op, w.text());
  for (int64_t i = 2; i < w.rank(); ++i) {
    if (w[i].is(0)) fail("{}: the weight {} has a kernel of size 0 along axis {}", op, w.text(), i);
  }
}

void ConvOp::check_bias(std::string_view op, const InferArgs& in, const Dim& filters) const {
  if (!in.has(2)) return;
  in.expect_same_dtype(0, 2);
  if (!(in.shape(2) == Shape{filters})) {
    fail("{}: the bias has the shape {}; {} filters need [{}]", op, in.shape(2).text(), filters.text(),
         filters.text());
  }
}

// --- The op ---

void Conv::visit_attributes(AttributeVisitor& v) {
  visit_lists(v);
  visit_groups(v);
}

std::shared_ptr<Op> Conv::with_epilogue(ExprAttr other) const {
  auto op = std::make_shared<Conv>(*this);
  op->epilogue = std::move(other);
  return op;
}

std::optional<ProductOp::Join> Conv::join(std::span<const TensorType> inputs) const {
  if (groups != 1 || inputs.size() > 3) return std::nullopt;
  return Join{.weight_axis = 0, .result_axis = layout == ConvLayout::channels_first ? 1 : -1};
}

// Taps outside, then channels, and filters side by side.
std::optional<Conv::Order> Conv::weight_order(std::span<const TensorType> inputs, const Order&) const {
  std::vector<int64_t> order;
  for (int64_t axis = 2; axis < inputs[1].shape.rank(); ++axis) order.push_back(axis);
  order.push_back(1);
  order.push_back(0);
  return order;
}

namespace {

void check_weight(const Conv& op, const Shape& x, const Shape& w) {
  if (w[0].value() % op.groups != 0) {
    fail("conv: the {} filters of the weight {} cannot be divided evenly among {} groups", w[0].text(),
         w.text(), op.groups);
  }
  const Dim& channels = x[op.layout == ConvLayout::channels_first ? 1 : x.rank() - 1];
  if (!(channels == w[1] * Dim(op.groups))) {
    fail("conv: x {} has {} channels, but the weight {} takes {} in each of {} groups", x.text(),
         channels.text(), w.text(), w[1].text(), op.groups);
  }
}

Shape output_shape(const Conv& op, const Shape& x, const Shape& w) {
  const bool last = op.layout == ConvLayout::channels_last;
  Shape out = x;
  out[last ? x.rank() - 1 : 1] = w[0];
  const int64_t spatial = x.rank() - 2;
  for (int64_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<size_t>(i);
    Dim& length = out[i + (last ? 1 : 2)];
    const Window window = op.window(axis, static_cast<size_t>(spatial));
    length = window_count(Conv::kName, length, w[i + 2], window, axis);
  }
  return out;
}

}  // namespace

std::vector<TensorType> Conv::infer(const InferArgs& in) const {
  check_inputs(kName, in);
  check_weight(*this, in.shape(0), in.shape(1));
  check_bias(kName, in, in.shape(1)[0]);
  const Shape out = output_shape(*this, in.shape(0), in.shape(1));
  return {TensorType{epilogue_type(in, out), out}};
}

ConvSizes conv_sizes(const Conv& op, const std::vector<int64_t>& x, const std::vector<int64_t>& w) {
  ConvSizes s{.batch = x[0], .groups = op.groups, .channels = w[1], .filters = w[0] / op.groups};
  const size_t spatial = w.size() - 2;
  const size_t missing = 3 - spatial;
  for (const auto list : {&s.in, &s.kernel, &s.stride, &s.dilation, &s.out}) list->fill(1);
  s.before.fill(0);
  s.after.fill(0);
  for (size_t i = 0; i < spatial; ++i) {
    const Window a = op.window(i, spatial);
    const size_t to = missing + i;
    s.in[to] = x[i + (op.layout == ConvLayout::channels_last ? 1 : 2)];
    s.kernel[to] = w[i + 2];
    s.stride[to] = a.stride;
    s.dilation[to] = a.dilation;
    s.before[to] = a.before;
    s.after[to] = a.after;
    s.out[to] = window_count(Conv::kName, s.in[to], s.kernel[to], a, i).value();
  }
  return s;
}

View conv_view(const View& v, ConvLayout layout) {
  View out = v;
  if (layout == ConvLayout::channels_last) {
    std::rotate(out.dims.begin() + 1, out.dims.end() - 1, out.dims.end());
    std::rotate(out.strides.begin() + 1, out.strides.end() - 1, out.strides.end());
  }
  while (out.rank() < 5) {
    out.dims.insert(out.dims.begin() + 2, 1);
    out.strides.insert(out.strides.begin() + 2, 0);
  }
  return out;
}

ConvProblem conv_problem(const Conv& windows, const ProductOp& op, const Lowering& l) {
  ConvProblem p;
  p.layout = windows.layout;
  const ConvSizes s = conv_sizes(windows, l.in(0).view.dims, l.in(1).view.dims);
  for (size_t i = 0; i < 3; ++i) {
    p.axes[i] = {.in = s.in[i],
                 .out = s.out[i],
                 .kernel = s.kernel[i],
                 .stride = s.stride[i],
                 .dilation = s.dilation[i],
                 .pad = s.before[i]};
  }
  p.x = l.in(0).with_view(by_group(l.in(0).view, p.layout, s.groups));
  p.w = l.in(1).with_view(conv_view(l.in(1).view, ConvLayout::channels_first).split_axis(0, s.groups));
  p.y = l.out().with_view(by_group(l.out().view, p.layout, s.groups));
  set_epilogue(p, op, l, s.groups);
  return p;
}

void Conv::lower(Lowering& l) const {
  if (l.out().view.elements() > 0) lower_conv(l, kName, conv_problem(*this, *this, l));
}

double Conv::terms(std::span<const TensorType> inputs) const {
  const Shape& w = inputs[1].shape;
  double count = 1;
  for (int64_t i = 1; i < w.rank(); ++i) count *= static_cast<double>(w[i].value());
  return count;
}

Tolerance Conv::tolerance(std::span<const TensorType> inputs) const {
  const double k = terms(inputs);
  const Expr tail = typed_epilogue(input_dtypes(inputs));
  // As in matmul: the result is rounded to its type before the epilogue reads it, and partial sums of
  // products of numbers in [-2, 2] grow to about 2 sqrt(k).
  const double rounding = tail.steps.empty() ? 0 : epsilon(inputs[0].dtype) / epsilon(DType::f32);
  return {.ulps = 2 + rounding + tail.ulps(), .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

Value conv(Value x, Value w, Value bias, const ConvOptions& options) {
  auto op = std::make_shared<Conv>();
  op->strides = options.strides;
  op->dilations = options.dilations;
  op->pads = options.pads;
  op->groups = options.groups;
  op->layout = options.layout;
  return add_node(std::move(op), {x, w, bias});
}

namespace ops {
void register_conv(OpTable& table) {
  std::vector<std::string> variants = conv_variants();
  variants.emplace_back(products::kPaneled);  // kernels of one element
  table.add<Conv>(
      {.formula = "y[n, m, o..] = epilogue(bias[m] + sum_c,k x[n, c, o*stride + k*dilation - pad] * w[m, c, "
                  "k]); pads: "
                  "all begins, then all ends; w is [m, c, k..] in both layouts",
       .operands = "x (T i32): [batch, channels, spatial..], or as the layout says; 1 to 3 "
                   "spatial axes\n"
                   "w (T i32 i8 u8): [filters, channels / groups, kernel..] in either layout; "
                   "bytes only if x is i32\n"
                   "bias? (T i32): [filters], added to the result\n"
                   "extra... (any): further inputs of the epilogue, which broadcast to the result",
       .attributes = "strides: from one window to the next, for each spatial axis; empty: all 1\n"
                     "dilations: from one element of a window to the next, likewise\n"
                     "pads: zeros around x: all begins, then all ends; empty: none\n"
                     "groups: parts of the channels, each with its own filters; as many as "
                     "channels: depthwise\n"
                     "layout: the order of axes of x and the result\n"
                     "epilogue: a scalar expression of the result $0 and the extra inputs $1, "
                     "$2, ..; empty: none",
       .outputs = "y (any): as x, with filters for channels; of the type of x, or of the epilogue",
       .types = "f32 f16 bf16",
       .variants = std::move(variants),
       .samples = {
           "conv(T[2,5,7,6], T[3,5,1,1])",
           "conv(T[1,3,17,9], T[8,3,3,3], T[8]) {pads=[1,1,1,1]}",
           "conv(T[2,4,9,8], T[6,4,3,3]) {strides=[2,2], pads=[1,1,1,1]}",
           "conv(T[1,8,14,14], T[16,8,1,1], T[16]) {strides=[2,2]}",
           "conv(T[1,4,11,10], T[3,4,3,3]) {dilations=[2,2], pads=[2,2,2,2]}",
           "conv(T[1,6,7,7], T[9,2,3,3], T[9]) {groups=3}",
           // Depthwise, with one filter for each channel and with two.
           "conv(T[2,17,8,9], T[17,1,3,3], T[17]) {groups=17, pads=[1,1,1,1]}",
           "conv(T[1,8,9,8], T[16,1,5,5]) {groups=8, strides=[2,2], pads=[2,2,2,2]}",
           // Depthwise with two filters for each channel, in three dimensions, and in one.
           "conv(T[2,9,17,4], T[8,1,3,2], T[8], T[2,5,9,8]) {layout=\"channels_last\", groups=4, "
           "strides=[2,2], pads=[1,1,1,1], epilogue=\"add($0,$1)\"}",
           "conv(T[1,5,3,9,7], T[10,1,2,3,3]) {groups=5, dilations=[1,2,1], pads=[1,2,1,0,2,1]}",
           "conv(T[1,3,257], T[3,1,31], T[3]) {groups=3, pads=[15,15]}",
           // Long kernels of few channels: without padding, with strides and dilations, with padding.
           "conv(T[1,1,400], T[10,1,64], T[10]) {strides=[16]}",
           "conv(T[2,2,257], T[9,2,17]) {strides=[3], dilations=[2], pads=[7,20]}",
           "conv(T[1,1,9,40], T[8,1,3,8], T[8], T[8,1,1]) {strides=[2,1], epilogue=\"mul($0,$1)\"}",
           "conv(T[1,9,40,2], T[8,2,3,8]) {layout=\"channels_last\", pads=[1,3,1,4]}",
           "conv(T[1,2,7,8], T[3,2,2,3]) {strides=[1,2], dilations=[2,1], pads=[0,1,3,2]}",
           "conv(T[2,3,17], T[4,3,5], T[4]) {strides=[3], pads=[2,1]}",
           "conv(T[1,1,257], T[1,1,1])",
           "conv(T[1,2,5,6,4], T[3,2,3,2,3], T[3]) {strides=[1,2,1], pads=[1,0,1,1,1,1]}",
           "conv(T[2,7,6,5], T[4,5,3,3], T[4]) {layout=\"channels_last\", strides=[2,1], pads=[1,1,1,1]}",
           "conv(T[1,9,8,16], T[24,8,3,3]) {layout=\"channels_last\", groups=2}",
           "conv(T[1,9,8,12], T[12,1,3,3], T[12]) {layout=\"channels_last\", groups=12, pads=[1,1,1,1]}",
           "conv(T[2,33,4], T[8,4,3]) {layout=\"channels_last\", pads=[2,0]}",
           "conv(T[1,4,3,5,2], T[3,2,2,2,2]) {layout=\"channels_last\"}",
           // A kernel that only fits with the padding, and padding that no element of x is near to.
           "conv(T[1,2,3,4], T[2,2,5,7]) {pads=[1,2,1,1]}",
           "conv(T[1,2,3,3], T[2,2,2,2], T[2]) {pads=[4,0,0,5]}",
           "conv(T[1,3,11,10], T[4,3,2,1]) {strides=[4,3]}",
           "conv(i32[1,3,9,8] in -200..200, i8[4,3,3,3] in -128..127, i32[4]) {pads=[1,1,1,1]}",
           "conv(T[0,3,5,5], T[4,3,3,3], T[4])",
           "conv(T[2,0,5,5], T[4,0,3,3], T[4])",
           "conv(T[1,2,0,3], T[4,2,1,1], T[4]) {pads=[1,0,1,0]}",
           "conv(T[1,1,1,1], T[1,1,1,1])",
           "conv(i32[2,3,9,8], i32[5,3,3,3], i32[5]) {strides=[2,1], pads=[1,1,1,1]}",
           "conv(i32[1,4,9,8], i32[4,1,3,3]) {groups=4}",
           "conv(i32[1,9,8,6], i32[4,6,3,3], i32[4]) {layout=\"channels_last\"}",
           // Epilogues: a residual, without a bias, and a result of another type.
           "conv(T[2,4,9,7], T[6,4,3,3], T[6], T[2,6,9,7]) {pads=[1,1,1,1], epilogue=\"t0=add($0,$1); "
           "relu(t0)\"}",
           "conv(T[1,4,5,5], T[6,4,1,1], none, T[6,1,1], T[1]) {epilogue=\"t0=mul($0,$1); add(t0,$2)\"}",
           "conv(T[1,5,5,4], T[6,4,3,3], T[6], T[1,3,3,6]) {layout=\"channels_last\", "
           "epilogue=\"t0=silu($0); add(t0,$1)\"}",
           "conv(T[1,3,9,9], T[4,3,3,3], T[4]) {epilogue=\"gelu($0)\"}",
           "conv(T[1,2,5,5], T[3,2,3,3], none, T[3,3]) {epilogue=\"less($0,$1)\"}",
           // Past one binding of 64 KiB, and past all bindings together: x, y and w.
           "conv(T[2,16,40,40], T[24,16,3,3], T[24]) {pads=[1,1,1,1]}",
           "conv(T[1,64,66,64], T[8,64,1,1])",
           "conv(T[1,80,57,63], T[3,80,3,2], T[3])",
           "conv(T[1,66,64,64], T[8,64,3,3]) {layout=\"channels_last\", strides=[2,2]}",
           "conv(T[1,128,5,5], T[256,128,3,3], T[256])",
           "conv(T[1,3,65,66], T[64,3,3,3]) {pads=[1,1,1,1], epilogue=\"relu($0)\"}",
       }});
}
}  // namespace ops

}  // namespace rlx
