// Transposed convolutions. The elements of y whose index leaves the same rest when divided by the stride are
// made of the same taps: they are an ordinary convolution with a part of the kernel, reversed.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "ir/reference.h"
#include "ops/convolution/conv.h"
#include "ops/convolution/conv_problem.h"
#include "ops/convolution/window.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/products/epilogue.h"
#include "ops/products/load_strided.h"
#include "ops/products/store_strided.h"

namespace rlx {
namespace {

struct ConvTranspose final : OpOf<ConvTranspose>, ConvOp {
  static constexpr auto kName = "conv_transpose";
  std::vector<int64_t> output_padding;

  void visit_attributes(AttributeVisitor& v) override;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;

  std::shared_ptr<Op> with_epilogue(ExprAttr other) const override;
  double terms(std::span<const TensorType> inputs) const override;
  std::optional<Order> weight_order(std::span<const TensorType> inputs, const Order& lies) const override;
};

void ConvTranspose::visit_attributes(AttributeVisitor& v) {
  visit_lists(v);
  v("output_padding", output_padding, {});
  visit_groups(v);
}

std::shared_ptr<Op> ConvTranspose::with_epilogue(ExprAttr other) const {
  auto op = std::make_shared<ConvTranspose>(*this);
  op->epilogue = std::move(other);
  return op;
}

// Taps outside, then channels, and filters side by side.
std::optional<ConvTranspose::Order> ConvTranspose::weight_order(std::span<const TensorType> inputs,
                                                                const Order&) const {
  Order order;
  for (int64_t axis = 2; axis < inputs[1].shape.rank(); ++axis) order.push_back(axis);
  order.push_back(0);
  order.push_back(1);
  return order;
}

// --- Sizes ---

// Along one spatial axis.
struct Axis {
  Window window;     // whose padding is cut from y
  int64_t more = 0;  // elements at the end of y
};

Axis axis_of(const ConvTranspose& op, size_t axis, size_t spatial) {
  return {op.window(axis, spatial), op.output_padding.empty() ? 0 : op.output_padding[axis]};
}

Dim output_size(const Dim& length, const Dim& kernel, const Axis& a) {
  return (length - Dim(1)) * Dim(a.window.stride) + Dim(a.window.dilation) * (kernel - Dim(1)) +
         Dim(1 + a.more) - Dim(a.window.before) - Dim(a.window.after);
}

void check_weight(const ConvTranspose& op, const Shape& x, const Shape& w) {
  if (w[0].value() % op.groups != 0) {
    fail("conv_transpose: the {} channels of the weight {} cannot be divided evenly among {} groups",
         w[0].text(), w.text(), op.groups);
  }
  const Dim& channels = x[op.layout == ConvLayout::channels_first ? 1 : x.rank() - 1];
  if (!(channels == w[0])) {
    fail("conv_transpose: x {} has {} channels, but the weight {} takes {}", x.text(), channels.text(),
         w.text(), w[0].text());
  }
}

Shape output_shape(const ConvTranspose& op, const Shape& x, const Shape& w) {
  const bool last = op.layout == ConvLayout::channels_last;
  Shape out = x;
  out[last ? x.rank() - 1 : 1] = w[1] * Dim(op.groups);
  const int64_t spatial = x.rank() - 2;
  for (int64_t i = 0; i < spatial; ++i) {
    Dim& length = out[i + (last ? 1 : 2)];
    const Dim from = length;
    length = output_size(from, w[i + 2], axis_of(op, static_cast<size_t>(i), static_cast<size_t>(spatial)));
    if (from.is(0) || (length.is_static() && length.value() < 0)) {
      fail("conv_transpose: {} elements with a kernel of {} leave {} along spatial axis {}", from.text(),
           w[i + 2].text(), length.text(), i);
    }
  }
  return out;
}

}  // namespace

std::vector<TensorType> ConvTranspose::infer(const InferArgs& in) const {
  check_inputs(kName, in);
  in.expect_float(0);
  const Shape& x = in.shape(0);
  const Shape& w = in.shape(1);
  check_list(kName, "output_padding", output_padding, x.rank() - 2, 0);
  check_weight(*this, x, w);
  check_bias(kName, in, w[1] * Dim(groups));
  const Shape out = output_shape(*this, x, w);
  return {TensorType{epilogue_type(in, out), out}};
}

namespace {

// w as [groups, filters, channels, 3 kernel axes], those that it does not have first.
View weight_by_group(const View& w, int64_t groups) {
  return conv_view(w, ConvLayout::channels_first).split_axis(0, groups).permute({0, 2, 1, 3, 4, 5});
}

// Always for three spatial axes; those that x does not have come first.
std::array<Axis, 3> all_axes(const ConvTranspose& op, int64_t rank) {
  const auto spatial = static_cast<size_t>(rank - 2);
  std::array<Axis, 3> out;
  for (size_t i = 0; i < spatial; ++i) out[3 - spatial + i] = axis_of(op, i, spatial);
  return out;
}

}  // namespace

// --- Reference ---

void ConvTranspose::reference(RefContext& r) const {
  RefTensor y = RefTensor::zeros(r.in(0).dtype, r.out().dims);
  const View x_view = by_group(View::contiguous(r.in(0).dims), layout, groups);
  const View w_view = weight_by_group(View::contiguous(r.in(1).dims), groups);
  const View y_view = by_group(View::contiguous(y.dims), layout, groups);
  const std::array<Axis, 3> axes = all_axes(*this, std::ssize(y.dims));
  const std::vector<double>& x = r.in(0).real;
  const std::vector<double>& w = r.in(1).real;
  const Dims& kernel = w_view.dims;
  if (const RefTensor* bias = r.optional_in(2)) {
    const int64_t filters = y_view.dims[1] * y_view.dims[2];
    const View by_filter = conv_view(View::contiguous(y.dims), layout);
    int64_t i = 0;
    const int64_t pixels = product(y.dims) / std::max<int64_t>(filters * y.dims[0], 1);
    by_filter.for_each_position([&](int64_t at) {
      y.real[static_cast<size_t>(at)] = bias->real[static_cast<size_t>(i++ / pixels % filters)];
    });
  }
  // Every element of x, with its index, adds to each filter's taps.
  std::array<int64_t, 6> at = {};
  const auto add = [&](int64_t position) {
    for (int64_t tap = 0; tap < kernel[3] * kernel[4] * kernel[5]; ++tap) {
      const std::array<int64_t, 3> k = {tap / kernel[5] / kernel[4], tap / kernel[5] % kernel[4],
                                        tap % kernel[5]};
      int64_t to = y_view.offset + at[0] * y_view.strides[0] + at[1] * y_view.strides[1];
      int64_t from = w_view.offset + at[1] * w_view.strides[0] + at[2] * w_view.strides[2];
      bool inside = true;
      for (size_t i = 0; i < 3; ++i) {
        const Window& window = axes[i].window;
        const int64_t o = at[3 + i] * window.stride + k[i] * window.dilation - window.before;
        inside = inside && o >= 0 && o < y_view.dims[3 + i];
        to += o * y_view.strides[3 + i];
        from += k[i] * w_view.strides[3 + i];
      }
      for (int64_t m = 0; inside && m < kernel[1]; ++m) {
        y.real[static_cast<size_t>(to + m * y_view.strides[2])] +=
            x[static_cast<size_t>(position)] * w[static_cast<size_t>(from + m * w_view.strides[1])];
      }
    }
  };
  x_view.for_each_position([&](int64_t position) {
    add(position);
    for (size_t i = 6; i-- > 0;) {
      if (++at[i] < x_view.dims[i]) break;
      at[i] = 0;
    }
  });
  std::vector<DType> types = {y.dtype, y.dtype, y.dtype};
  for (int64_t i = 3; i < r.input_count(); ++i) types.push_back(r.in(i).dtype);
  reference_epilogue(typed_epilogue(types), std::move(y), 3, r);
}

// At most; with strides, not every element of the kernel meets each element of the result.
double ConvTranspose::terms(std::span<const TensorType> inputs) const {
  const Shape& w = inputs[1].shape;
  auto count = static_cast<double>(w[0].value()) / static_cast<double>(groups);
  for (int64_t i = 2; i < w.rank(); ++i) count *= static_cast<double>(w[i].value());
  return count;
}

// Each element of x is multiplied by the part of the weight [channels, filters, kernel...] of its channel.
double ConvTranspose::flops(std::span<const TensorType> inputs,
                            std::span<const TensorType> /*outputs*/) const {
  const auto elements = [&](size_t i) { return static_cast<double>(inputs[i].shape.elements().value()); };
  const auto channels = static_cast<double>(inputs[1].shape[0].value());
  return channels == 0 ? 0 : 2 * elements(0) * elements(1) / channels;
}

Tolerance ConvTranspose::tolerance(std::span<const TensorType> inputs) const {
  const double k = terms(inputs);
  const Expr tail = typed_epilogue(input_dtypes(inputs));
  // As in conv.
  const double rounding = tail.steps.empty() ? 0 : epsilon(inputs[0].dtype) / epsilon(DType::f32);
  return {.ulps = 2 + rounding + tail.ulps(), .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

// --- Lowering ---

namespace {

// The elements of y from `first` on, a stride apart, along one axis.
struct Phase {
  int64_t first = 0, count = 0;
  int64_t first_tap = 0, taps = 0, tap_step = 1;  // of the kernel, in its own order
  products::WindowAxis window;
};

Phase phase_of(const Axis& axis, int64_t first, int64_t in, int64_t out, int64_t kernel) {
  const auto [stride, dilation, before, after] = axis.window;
  Phase p{.first = first, .count = ceil_div(out - first, stride)};
  p.tap_step = stride / std::gcd(stride, dilation);
  // Taps that hit: those for which first + before - k * dilation is a multiple of the stride.
  while (p.first_tap < p.tap_step && (first + before - p.first_tap * dilation) % stride != 0) ++p.first_tap;
  if (p.first_tap == p.tap_step || p.first_tap >= kernel) return p;
  p.taps = ceil_div(kernel - p.first_tap, p.tap_step);
  // Backwards through the kernel, windows go forwards through x.
  const int64_t apart = p.tap_step * dilation / stride;
  const int64_t begin = (first + before - p.first_tap * dilation) / stride - (p.taps - 1) * apart;
  p.window = {.in = in, .out = p.count, .kernel = p.taps, .stride = 1, .dilation = apart, .pad = -begin};
  return p;
}

// What of the whole problem these elements are.
ConvProblem part_of(const ConvProblem& whole, const std::array<Phase, 3>& phases,
                    const std::array<Axis, 3>& axes) {
  ConvProblem p = whole;
  for (size_t i = 0; i < 3; ++i) {
    const Phase& phase = phases[i];
    const auto axis = static_cast<int64_t>(i) + 3;
    const int64_t stride = axes[i].window.stride;
    p.y.view = p.y.view.slice(axis, phase.first, phase.count, stride);
    for (Operand& e : p.extra) e.view = e.view.slice(axis, phase.first, phase.count, stride);
    if (phase.taps == 0) {
      // Nothing of x: a sum over no channels.
      p.axes[i] = {.in = 1, .out = phase.count};
      p.x.view = p.x.view.slice(2, 0, 0).slice(axis, 0, 1);
      p.w.view = p.w.view.slice(2, 0, 0).slice(axis, 0, 1);
      continue;
    }
    const int64_t last = phase.first_tap + (phase.taps - 1) * phase.tap_step;
    p.w.view = p.w.view.slice(axis, last, phase.taps, -phase.tap_step);
    p.axes[i] = phase.window;
    if (phase.window.pad < 0) {
      const int64_t skipped = std::min(-phase.window.pad, phase.window.in);
      p.x.view = p.x.view.slice(axis, skipped, phase.window.in - skipped);
      p.axes[i].in -= skipped;
      p.axes[i].pad = 0;
    }
  }
  return p;
}

// Kernels that lie side by side in y: one product makes them all.
bool tiles_y(const ConvProblem& p, const std::array<Axis, 3>& axes) {
  for (size_t i = 0; i < 3; ++i) {
    const int64_t kernel = p.w.view.dims[3 + i];
    if (axes[i].window.stride != kernel || (kernel > 1 && axes[i].window.dilation != 1)) return false;
    if (p.y.view.dims[3 + i] != p.x.view.dims[3 + i] * kernel || axes[i].window.before != 0) return false;
  }
  return true;
}

void lower_tiles(Lowering& l, const ConvProblem& p) {
  using products::Grouped;
  const Dims& x = p.x.view.dims;
  const Dims& w = p.w.view.dims;
  // [batch, groups, filters, kernel (three axes), pixels (three axes)]
  const auto tiled = [&](const Operand& o) {
    View v = o.view;
    for (int64_t i = 5; i >= 3; --i) v = v.split_axis(i, x[static_cast<size_t>(i)]);
    return Grouped{o.with_view(v.permute({0, 1, 2, 4, 6, 8, 3, 5, 7})), 2, 4};
  };
  View weight = p.w.view.permute({0, 1, 3, 4, 5, 2});
  weight.dims.insert(weight.dims.begin(), x[0]);
  weight.strides.insert(weight.strides.begin(), 0);
  products::Product product;
  product.size = {x[0] * x[1], w[1] * w[3] * w[4] * w[5], x[3] * x[4] * x[5], x[2]};
  product.a = std::make_shared<products::LoadStrided>(Grouped{p.w.with_view(weight), 2, 4});
  product.b = std::make_shared<products::LoadStrided>(
      Grouped{p.x.with_view(p.x.view.permute({0, 1, 3, 4, 5, 2})), 2, 3});
  product.y = std::make_shared<products::StoreStrided>(tiled(p.y));
  product.expr = p.expr;
  product.may_round = true;
  for (const Operand& e : p.extra) product.extra.push_back(tiled(e));
  products::lower(l, ConvTranspose::kName, std::move(product));
}

}  // namespace

void ConvTranspose::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  ConvProblem whole;
  whole.layout = layout;
  whole.outside =
      products::Outside::nothing;  // no zeros are added to x: an element has the taps that reach it
  whole.x = l.in(0).with_view(by_group(l.in(0).view, layout, groups));
  whole.w = l.in(1).with_view(weight_by_group(l.in(1).view, groups));
  whole.y = l.out().with_view(by_group(l.out().view, layout, groups));
  set_epilogue(whole, *this, l, groups);
  const std::array<Axis, 3> axes = all_axes(*this, l.in(0).view.rank());
  if (tiles_y(whole, axes)) return lower_tiles(l, whole);
  std::array<std::vector<Phase>, 3> phases;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t out = whole.y.view.dims[3 + i];
    for (int64_t first = 0; first < std::min(axes[i].window.stride, out); ++first)
      phases[i].push_back(phase_of(axes[i], first, whole.x.view.dims[3 + i], out, whole.w.view.dims[3 + i]));
  }
  for (const Phase& a : phases[0]) {
    for (const Phase& b : phases[1]) {
      for (const Phase& c : phases[2]) lower_conv(l, kName, part_of(whole, {a, b, c}, axes));
    }
  }
}

Value conv_transpose(Value x, Value w, Value bias, const ConvTransposeOptions& options) {
  auto op = std::make_shared<ConvTranspose>();
  op->strides = options.strides;
  op->dilations = options.dilations;
  op->pads = options.pads;
  op->output_padding = options.output_padding;
  op->groups = options.groups;
  op->layout = options.layout;
  return add_node(std::move(op), {x, w, bias});
}

namespace ops {
void register_conv_transpose(OpTable& table) {
  table.add<ConvTranspose>(
      {.formula = "y[n, m, i*stride + k*dilation - pad] = epilogue(bias[m] + the sum of x[n, c, i] * w[c, m, "
                  "k] over all c, "
                  "i and k that give this index); w is [c, m, k..] in both layouts",
       .operands = "x: [batch, channels, spatial..], or as the layout says; 1 to 3 spatial axes\n"
                   "w: [channels, filters / groups, kernel..] in either layout\n"
                   "bias?: [filters], added to the result\n"
                   "extra... (any): further inputs of the epilogue, which broadcast to the result",
       .attributes = "strides: how far apart the kernels of neighbours in x begin, for each "
                     "spatial axis; empty: all 1\n"
                     "dilations: from one element of the kernel to the next, likewise\n"
                     "pads: cut from the result: all begins, then all ends; empty: none\n"
                     "output_padding: further elements at the end of each spatial axis; empty: none\n"
                     "groups: parts of the channels, each with its own filters\n"
                     "layout: the order of axes of x and the result\n"
                     "epilogue: a scalar expression of the result $0 and the extra inputs $1, "
                     "$2, ..; empty: none",
       .outputs = "y (any): as x, with filters for channels; of the type of x, or of the epilogue",
       .types = "f32 f16 bf16",
       .variants = conv_variants(),
       .samples = {
           "conv_transpose(T[2,5,4,3], T[5,3,3,3], T[3])",
           "conv_transpose(T[1,4,5,6], T[4,3,3,3]) {strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]}",
           "conv_transpose(T[2,6,4,5], T[6,4,2,2], T[4]) {strides=[2,2]}",
           "conv_transpose(T[1,6,3,4], T[6,2,3,2], T[4]) {strides=[3,2], groups=2}",
           "conv_transpose(T[1,3,4,4], T[3,2,3,4]) {strides=[2,4], dilations=[2,3], pads=[1,0,2,1]}",
           // A stride that is larger than the kernel: some elements are made of nothing.
           "conv_transpose(T[1,3,3,4], T[3,4,2,1], T[4]) {strides=[4,3], output_padding=[2,1]}",
           "conv_transpose(T[1,2,3,2,4], T[2,3,2,3,2], T[3]) {strides=[1,2,1], pads=[0,1,0,0,1,1]}",
           "conv_transpose(T[2,4,3,5], T[5,4,3,3], T[4]) {layout=\"channels_last\", strides=[2,1], "
           "pads=[1,1,1,1]}",
           "conv_transpose(T[1,4,3,8], T[8,4,2,2], T[4]) {layout=\"channels_last\", strides=[2,2]}",
           "conv_transpose(T[1,5,4,4], T[5,1,3,3], T[5]) {groups=5, strides=[2,2], pads=[1,1,1,1]}",
           "conv_transpose(T[1,1,1,1], T[1,1,1,1])",
           "conv_transpose(T[0,3,5,5], T[3,4,3,3], T[4])",
           "conv_transpose(T[2,0,5,5], T[0,4,3,3], T[4])",
           "conv_transpose(T[1,2,3,3], T[2,2,2,2], T[2], T[1,2,7,7]) {strides=[2,2], output_padding=[1,1], "
           "epilogue=\"t0=add($0,$1); relu(t0)\"}",
           // Past what a binding holds.
           "conv_transpose(T[1,16,40,40], T[16,8,3,3], T[8]) {strides=[2,2], pads=[1,1,1,1]}",
           "conv_transpose(T[1,16,40,41], T[16,8,2,2], T[8]) {strides=[2,2]}",
           "conv_transpose(T[1,130,5,5], T[130,64,3,3], T[64])",
       }});
}
}  // namespace ops

}  // namespace rlx
