// Convolutions as products.
#include "ops/convolution/conv_problem.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/convolution/conv.h"
#include "ops/products/load_less.h"
#include "ops/products/load_strided.h"
#include "ops/products/load_taps.h"
#include "ops/products/store_strided.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {
namespace {

using products::Grouped;
using products::LoadStrided;
using products::LoadTaps;
using products::LoadWindow;
using products::Product;
using products::StoreStrided;

// $0 becomes the sum without the bias, which is $1, in the type in which it is summed.
Expr with_bias(const Expr& tail, DType type) {
  Expr out;
  const DType sum = is_float(type) ? DType::f32 : type;
  out.inputs = {sum, type};
  out.inputs.insert(out.inputs.end(), tail.inputs.begin() + 1, tail.inputs.end());
  const Expr::Arg bias = type == sum ? Expr::input(1) : out.cast(Expr::input(1), sum);
  Expr::Arg result = out.apply(*find_scalar("add"), {Expr::input(0), bias});
  if (type != sum) result = out.cast(result, type);
  std::vector<Expr::Arg> made;  // by the steps of the tail
  for (const Expr::Step& step : tail.steps) {
    std::vector<Expr::Arg> args;
    for (const Expr::Arg& a : step.args) {
      args.push_back(a.kind == ExprArg::Kind::step     ? made[static_cast<size_t>(a.index)]
                     : a.kind == ExprArg::Kind::number ? a
                     : a.index == 0                    ? result
                                                       : Expr::input(a.index + 1));
    }
    made.push_back(step.fn ? out.apply(*step.fn, std::move(args)) : out.cast(args[0], step.type));
  }
  return out;
}

}  // namespace

View by_group(const View& v, ConvLayout layout, int64_t groups) {
  return conv_view(v, layout).split_axis(1, groups);
}

void set_epilogue(ConvProblem& p, const ProductOp& op, const Lowering& l, int64_t groups) {
  std::vector<DType> types;
  for (int64_t i = 0; i < l.input_count(); ++i) types.push_back(l.in(i).dtype);
  for (int64_t i = op.own_inputs(); i < l.input_count(); ++i) {
    const View full = l.in(i).view.broadcast_to(l.out().view.dims);
    p.extra.push_back(l.in(i).with_view(by_group(full, p.layout, groups)));
  }
  p.expr = op.typed_epilogue(types);
  if (const Operand bias = l.optional_in(2); bias.present()) {
    View v = p.y.view;
    std::ranges::fill(v.strides, 0);
    v.strides[2] = bias.view.strides[0];
    v.strides[1] = v.strides[2] * p.y.view.dims[2];
    v.offset = bias.view.offset;
    p.extra.insert(p.extra.begin(), bias.with_view(v));
    p.expr = with_bias(p.expr, op.product_type(types));
  }
}

namespace {

// Whether a run should be the taps along the last axis instead of the channels of one tap. The results of
// such sums are few beside their factors, and filters side by side are read fastest.
bool runs_along_taps(const ConvProblem& p) {
  constexpr int64_t kFewChannels = 4;
  constexpr int64_t kLongKernel = 8;
  constexpr int64_t kManyFilters = 8;
  // (LoadTaps reads zeros outside of x, from which a zero point must not be taken.)
  return p.outside == products::Outside::zeros && !p.x_zero.present() && p.y.view.dims[1] == 1 &&
         p.x.view.dims[2] <= kFewChannels && p.axes[2].kernel >= kLongKernel &&
         p.y.view.dims[2] >= kManyFilters;
}

// Whether no window reaches beyond x.
bool windows_are_inside(const ConvProblem& p) {
  return std::ranges::all_of(p.axes, [](const products::WindowAxis& a) {
    return a.pad == 0 && (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation < a.in;
  });
}

constexpr std::initializer_list<int64_t> kPixelsFirst = {0, 1, 3, 4, 5, 2};

// [batch, groups, out.., kernel.., channels], or with the channels before the last axis of the kernel.
View view_of_windows(const ConvProblem& p, bool along_taps) {
  View x = p.x.view.permute(kPixelsFirst);
  const int64_t channels = x.dims.back();
  const int64_t channel = x.strides.back();
  x.dims.pop_back();
  x.strides.pop_back();
  for (size_t i = 0; i < 3; ++i) {
    const products::WindowAxis& axis = p.axes[i];
    if (along_taps && i == 2) {
      x.dims.push_back(channels);
      x.strides.push_back(channel);
    }
    x.dims.push_back(axis.kernel);
    x.strides.push_back(axis.dilation * x.strides[2 + i]);
    x.dims[2 + i] = axis.out;
    x.strides[2 + i] *= axis.stride;
  }
  if (!along_taps) {
    x.dims.push_back(channels);
    x.strides.push_back(channel);
  }
  return x;
}

// The filters are rows and pixels columns if pixels are side by side in memory, else the other way round.
// Where each channel has filters of its own, these are few, and windows are what side by side makes sense
// for.
Product make_product(const ConvProblem& p) {
  const Dims& dims = p.y.view.dims;
  const int64_t pixels = dims[3] * dims[4] * dims[5];
  const int64_t channels = p.x.view.dims[2];
  const bool along_taps = runs_along_taps(p);
  const bool depthwise = channels == 1 && dims[1] > 1;
  const bool pixels_are_rows = (p.layout == ConvLayout::channels_last && !depthwise) || along_taps;
  const auto as_result = [&](const Operand& o) {
    return pixels_are_rows ? Grouped{o.with_view(o.view.permute(kPixelsFirst)), 2, 3} : Grouped{o, 2, 1};
  };
  Product out;
  out.size = {dims[0] * dims[1], pixels_are_rows ? pixels : dims[2], pixels_are_rows ? dims[2] : pixels,
              channels};
  for (const products::WindowAxis& axis : p.axes) out.size.k *= axis.kernel;
  out.expr = p.expr;
  for (const Operand& e : p.extra) out.extra.push_back(as_result(e));

  // [groups, filters, kernel, channels], or as above.
  View w = p.w.view.permute(along_taps ? Dims{0, 1, 3, 4, 2, 5} : Dims{0, 1, 3, 4, 5, 2});
  w.dims.insert(w.dims.begin(), dims[0]);
  w.strides.insert(w.strides.begin(), 0);
  const products::LoadPtr weights =
      products::less(std::make_shared<LoadStrided>(Grouped{p.w.with_view(w), 2, 1}), p.w_zero);

  const auto is_one = [](const products::WindowAxis& a) { return a.kernel == 1; };
  const int64_t run = along_taps ? p.axes[2].kernel : channels;
  products::LoadPtr windows;
  if (windows_are_inside(p) && (along_taps || std::ranges::all_of(p.axes, is_one))) {
    if (run < out.size.k) out.run = run;
    windows = std::make_shared<LoadStrided>(Grouped{p.x.with_view(view_of_windows(p, along_taps)), 2, 3});
  } else {
    out.run = run;
    const Operand x = p.x.with_view(p.x.view.permute(kPixelsFirst));
    if (along_taps)
      windows = std::make_shared<LoadTaps>(x, p.axes);
    else
      windows = std::make_shared<LoadWindow>(x, p.axes, p.outside);
  }
  windows = products::less(windows, p.x_zero);
  out.a = pixels_are_rows ? windows : weights;
  out.b = pixels_are_rows ? weights : windows;
  out.y = std::make_shared<StoreStrided>(as_result(p.y));
  return out;
}

// Some of the output along a spatial axis, and what of x it needs.
ConvProblem some_rows(const ConvProblem& p, size_t axis, int64_t begin, int64_t end) {
  ConvProblem part = p;
  products::WindowAxis& a = part.axes[axis];
  const int64_t first = begin * a.stride - a.pad;
  const int64_t last = (end - 1) * a.stride - a.pad + (a.kernel - 1) * a.dilation;
  const int64_t low = std::clamp<int64_t>(first, 0, a.in);
  const int64_t high = std::clamp<int64_t>(last + 1, low, a.in);
  a.in = high - low;
  a.out = end - begin;
  a.pad = low - first;
  const auto spatial = static_cast<int64_t>(axis) + 3;
  part.x.view = p.x.view.slice(spatial, low, high - low);
  part.y.view = p.y.view.slice(spatial, begin, end - begin);
  for (Operand& e : part.extra) e.view = e.view.slice(spatial, begin, end - begin);
  return part;
}

}  // namespace

std::vector<std::string> conv_variants() {
  std::vector<std::string> names = products::variant_names();
  names.emplace_back(products::kSlide);
  return names;
}

void lower_conv(Lowering& l, std::string_view op, const ConvProblem& p) {
  Product whole = make_product(p);
  whole.may_round = true;
  const auto binds_alone = [&] {
    Product bare = whole;
    bare.extra.clear();
    bare.expr = Expr{};
    return products::can_bind(l, op, bare);
  };
  const auto axis = std::ranges::find_if(p.axes, [](const products::WindowAxis& a) { return a.out > 1; });
  const bool plain = axis == p.axes.end() || whole.run == 0;
  if (plain || products::can_bind(l, op, whole) || binds_alone()) {
    products::lower(l, op, std::move(whole));
    return;
  }
  // The rows of x that some rows of y need are far apart in memory: they get their own.
  const auto index = static_cast<size_t>(axis - p.axes.begin());
  const int64_t half = ceil_div(axis->out, 2);
  for (ConvProblem part : {some_rows(p, index, 0, half), some_rows(p, index, half, axis->out)}) {
    part.x = lower_contiguous(l, part.x);
    lower_conv(l, op, part);
  }
}

}  // namespace rlx
