// Convolutions as products.
#include "ops/convolution/conv_problem.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/convolution/conv.h"
#include "ops/products/load_strided.h"
#include "ops/products/store_strided.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {
namespace {

using products::Grouped;
using products::LoadStrided;
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
  for (int64_t i = 3; i < l.input_count(); ++i) {
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
    p.expr = with_bias(p.expr, l.in(0).dtype);
  }
}

namespace {

// Filters are rows and pixels columns if pixels are side by side in memory, else the other way round.
Product make_product(const ConvProblem& p) {
  const Dims& dims = p.y.view.dims;
  const int64_t pixels = dims[3] * dims[4] * dims[5];
  const int64_t channels = p.x.view.dims[2];
  const bool last = p.layout == ConvLayout::channels_last;
  const Dims pixels_first = {0, 1, 3, 4, 5, 2};
  const auto as_result = [&](const Operand& o) {
    return last ? Grouped{o.with_view(o.view.permute(pixels_first)), 2, 3} : Grouped{o, 2, 1};
  };
  Product out;
  out.size = {dims[0] * dims[1], last ? pixels : dims[2], last ? dims[2] : pixels, channels};
  for (const products::WindowAxis& axis : p.axes) out.size.k *= axis.kernel;
  out.expr = p.expr;
  for (const Operand& e : p.extra) out.extra.push_back(as_result(e));

  View w = p.w.view.permute({0, 1, 3, 4, 5, 2});  // [groups, filters, kernel, channels]
  w.dims.insert(w.dims.begin(), dims[0]);
  w.strides.insert(w.strides.begin(), 0);
  const auto filters = std::make_shared<LoadStrided>(Grouped{p.w.with_view(w), 2, 1});

  View x = p.x.view.permute(pixels_first);
  const bool plain = std::ranges::all_of(p.axes, [](const products::WindowAxis& a) {
    return a.kernel == 1 && a.pad == 0 && a.out * a.stride <= a.in + a.stride - 1;
  });
  products::LoadPtr windows;
  if (plain) {
    for (size_t i = 0; i < 3; ++i)
      x = x.slice(2 + static_cast<int64_t>(i), 0, p.axes[i].out, p.axes[i].stride);
    windows = std::make_shared<LoadStrided>(Grouped{p.x.with_view(x), 2, 3});
  } else {
    out.run = channels;
    windows = std::make_shared<LoadWindow>(p.x.with_view(x), p.axes, p.outside);
  }
  out.a = last ? windows : filters;
  out.b = last ? filters : windows;
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

void lower_conv(Lowering& l, std::string_view op, const ConvProblem& p) {
  Product whole = make_product(p);
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
