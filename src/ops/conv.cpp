#include "ops/conv.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ir/reference.h"
#include "ops/epilogue.h"
#include "ops/op_table.h"

namespace rlx {

void Conv::visit_attributes(AttributeVisitor& v) {
  v("strides", strides, {});
  v("dilations", dilations, {});
  v("pads", pads, {});
  v("groups", groups, 1);
  v.choice("layout", layout, {"channels_first", "channels_last"}, std::optional(ConvLayout::channels_first));
  v("epilogue", epilogue, {});
}

Expr Conv::expr(DType result, std::span<const DType> extra) const {
  std::vector<DType> types = {result};
  types.insert(types.end(), extra.begin(), extra.end());
  return epilogue.typed(std::move(types));
}

namespace {

// What strides, dilations and pads are along one spatial axis.
struct Axis {
  int64_t stride = 1, dilation = 1, before = 0, after = 0;
};

Axis axis_of(const Conv& op, size_t axis, size_t spatial) {
  const auto at = [](const std::vector<int64_t>& list, size_t i, int64_t otherwise) {
    return list.empty() ? otherwise : list[i];
  };
  return {at(op.strides, axis, 1), at(op.dilations, axis, 1), at(op.pads, axis, 0),
          at(op.pads, spatial + axis, 0)};
}

void check_list(std::string_view name, const std::vector<int64_t>& list, int64_t wanted, int64_t least) {
  if (!list.empty() && std::ssize(list) != wanted) {
    fail("conv: `{}` has {} numbers; for this rank of x it needs {}", name, list.size(), wanted);
  }
  for (const int64_t n : list) {
    if (n < least) fail("conv: `{}` contains {}; its numbers must be at least {}", name, n, least);
  }
}

void check_attributes(const Conv& op, int64_t spatial) {
  check_list("strides", op.strides, spatial, 1);
  check_list("dilations", op.dilations, spatial, 1);
  check_list("pads", op.pads, 2 * spatial, 0);
  if (op.groups < 1) fail("conv: the number of groups is {}; it must be at least 1", op.groups);
}

void check_weight(const Conv& op, const Shape& x, const Shape& w) {
  if (w.rank() != x.rank()) {
    fail("conv: x {} has rank {} and the weight {} has rank {}; they must be equal", x.text(), x.rank(),
         w.text(), w.rank());
  }
  if (!w.is_static()) fail("conv: the sizes of the weight {} must be numbers", w.text());
  if (w[0].value() % op.groups != 0) {
    fail("conv: the {} filters of the weight {} cannot be divided evenly among {} groups", w[0].text(),
         w.text(), op.groups);
  }
  const Dim& channels = x[op.layout == ConvLayout::channels_first ? 1 : x.rank() - 1];
  if (!(channels == w[1] * Dim(op.groups))) {
    fail("conv: x {} has {} channels, but the weight {} takes {} in each of {} groups", x.text(),
         channels.text(), w.text(), w[1].text(), op.groups);
  }
  for (int64_t i = 2; i < w.rank(); ++i) {
    if (w[i].is(0)) fail("conv: the weight {} has a kernel of size 0 along axis {}", w.text(), i);
  }
}

Dim output_size(const Dim& length, const Dim& kernel, const Axis& a, size_t axis) {
  const Dim padded = length + Dim(a.before) + Dim(a.after);
  const Dim covered = Dim(a.dilation) * (kernel - Dim(1)) + Dim(1);
  const Dim room = padded - covered;
  if (room.is_static() && room.value() < 0) {
    fail(
        "conv: the kernel does not fit along spatial axis {}: it covers {} elements (size {}, dilation {}), "
        "but there are {} ({}, padded by {} and {})",
        axis, covered.text(), kernel.text(), a.dilation, padded.text(), length.text(), a.before, a.after);
  }
  return room.floor_div(a.stride) + Dim(1);
}

Shape output_shape(const Conv& op, const Shape& x, const Shape& w) {
  const bool last = op.layout == ConvLayout::channels_last;
  Shape out = x;
  out[last ? x.rank() - 1 : 1] = w[0];
  const int64_t spatial = x.rank() - 2;
  for (int64_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<size_t>(i);
    Dim& length = out[i + (last ? 1 : 2)];
    length = output_size(length, w[i + 2], axis_of(op, axis, static_cast<size_t>(spatial)), axis);
  }
  return out;
}

}  // namespace

std::vector<TensorType> Conv::infer(const InferArgs& in) const {
  if (in.count() < 2)
    fail("conv: takes x, a weight, a bias and the inputs of its epilogue, not {}", in.count());
  in.expect_float(0);
  in.expect_same_dtype(0, 1);
  const Shape& x = in.shape(0);
  const Shape& w = in.shape(1);
  if (x.rank() < 3 || x.rank() > 5) {
    fail("conv: x {} has rank {}; it must have 1 to 3 spatial axes, so a rank of 3 to 5", x.text(), x.rank());
  }
  check_attributes(*this, x.rank() - 2);
  check_weight(*this, x, w);
  if (in.has(2)) {
    in.expect_same_dtype(0, 2);
    if (!(in.shape(2) == Shape{w[0]}))
      fail("conv: the bias has the shape {}; {} filters need [{}]", in.shape(2).text(), w[0].text(),
           w[0].text());
  }
  const Shape out = output_shape(*this, x, w);
  std::vector<DType> extra;
  for (int64_t i = 3; i < in.count(); ++i) {
    extra.push_back(in.dtype(i));
    if (!(broadcast(out, in.shape(i), "conv") == out)) {
      fail("conv: the epilogue's input {} has the shape {}, which does not broadcast to the result {}", i,
           in.shape(i).text(), out.text());
    }
  }
  if (in.count() > 3 && epilogue.empty())
    fail("conv: takes 2 or 3 inputs when it has no epilogue, not {}", in.count());
  return {TensorType{expr(in.dtype(0), extra).result_type(), out}};
}

ConvSizes conv_sizes(const Conv& op, const std::vector<int64_t>& x, const std::vector<int64_t>& w) {
  ConvSizes s{.batch = x[0], .groups = op.groups, .channels = w[1], .filters = w[0] / op.groups};
  const size_t spatial = w.size() - 2;
  const size_t missing = 3 - spatial;
  for (const auto list : {&s.in, &s.kernel, &s.stride, &s.dilation, &s.out}) list->fill(1);
  s.before.fill(0);
  s.after.fill(0);
  for (size_t i = 0; i < spatial; ++i) {
    const Axis a = axis_of(op, i, spatial);
    const size_t to = missing + i;
    s.in[to] = x[i + (op.layout == ConvLayout::channels_last ? 1 : 2)];
    s.kernel[to] = w[i + 2];
    s.stride[to] = a.stride;
    s.dilation[to] = a.dilation;
    s.before[to] = a.before;
    s.after[to] = a.after;
    s.out[to] = output_size(s.in[to], s.kernel[to], a, i).value();
  }
  return s;
}

View conv_view(const View& v, ConvLayout layout) {
  View out = v;
  if (layout == ConvLayout::channels_last) {
    std::rotate(out.dims.begin() + 1, out.dims.end() - 1, out.dims.end());
    std::rotate(out.strides.begin() + 1, out.strides.end() - 1, out.strides.end());
  }
  const size_t missing = 5 - out.dims.size();
  out.dims.insert(out.dims.begin() + 2, missing, 1);
  out.strides.insert(out.strides.begin() + 2, missing, 0);
  return out;
}

namespace {

// x, channels first, with its padding.
struct Padded {
  std::array<int64_t, 3> dims;
  std::vector<double> values;

  int64_t at(int64_t channel, int64_t i, int64_t j) const {
    return ((channel * dims[0] + i) * dims[1] + j) * dims[2];
  }
};

Padded padded_input(const ConvSizes& s, const RefTensor& x, ConvLayout layout) {
  Padded p;
  for (size_t i = 0; i < 3; ++i) p.dims[i] = s.before[i] + s.in[i] + s.after[i];
  const int64_t images = s.batch * s.groups * s.channels;
  p.values.resize(static_cast<size_t>(images * p.dims[0] * p.dims[1] * p.dims[2]));
  const std::vector<double> source = gather_view(x.real, conv_view(View::contiguous(x.dims), layout));
  auto from = source.begin();
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t i = 0; i < s.in[0]; ++i) {
      for (int64_t j = 0; j < s.in[1]; ++j, from += s.in[2]) {
        std::copy_n(from, s.in[2],
                    p.values.begin() + p.at(image, s.before[0] + i, s.before[1] + j) + s.before[2]);
      }
    }
  }
  return p;
}

// One row of the result, along the last spatial axis: row[o] += the sum for filter m of image n.
void add_row(const ConvSizes& s, const Padded& x, const double* w, int64_t n, int64_t m, int64_t i, int64_t j,
             std::vector<double>& row) {
  const int64_t group = m / s.filters;
  const double* weight = w + m * s.channels * s.kernel[0] * s.kernel[1] * s.kernel[2];
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t channel = (n * s.groups + group) * s.channels + c;
    for (int64_t a = 0; a < s.kernel[0]; ++a) {
      for (int64_t b = 0; b < s.kernel[1]; ++b) {
        const double* line = x.values.data() + x.at(channel, i * s.stride[0] + a * s.dilation[0],
                                                    j * s.stride[1] + b * s.dilation[1]);
        for (int64_t k = 0; k < s.kernel[2]; ++k, ++weight) {
          const double* from = line + k * s.dilation[2];
          for (size_t o = 0; o < row.size(); ++o)
            row[o] += *weight * from[static_cast<int64_t>(o) * s.stride[2]];
        }
      }
    }
  }
}

}  // namespace

void Conv::reference(RefContext& r) const {
  const RefTensor& w = r.in(1);
  const ConvSizes s = conv_sizes(*this, r.in(0).dims, w.dims);
  const Padded x = padded_input(s, r.in(0), layout);
  const RefTensor* bias = r.optional_in(2);
  RefTensor y = RefTensor::zeros(r.in(0).dtype, r.out().dims);
  const View to = conv_view(View::contiguous(y.dims), layout);
  const int64_t filters = s.groups * s.filters;
  const int64_t rows = s.out[0] * s.out[1];
  parallel_for(s.batch * filters * rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t n = index / rows / filters;
      const int64_t m = index / rows % filters;
      const int64_t i = index % rows / s.out[1];
      const int64_t j = index % s.out[1];
      std::vector<double> row(static_cast<size_t>(s.out[2]), bias ? bias->real[static_cast<size_t>(m)] : 0);
      add_row(s, x, w.real.data(), n, m, i, j, row);
      double* at =
          y.real.data() + n * to.strides[0] + m * to.strides[1] + i * to.strides[2] + j * to.strides[3];
      for (size_t o = 0; o < row.size(); ++o) at[static_cast<int64_t>(o) * to.strides[4]] = row[o];
    }
  });
  std::vector<DType> extra;
  for (int64_t i = 3; i < r.input_count(); ++i) extra.push_back(r.in(i).dtype);
  reference_epilogue(expr(r.in(0).dtype, extra), std::move(y), 3, r);
}

Tolerance Conv::tolerance(std::span<const TensorType> inputs) const {
  std::vector<DType> extra;
  for (size_t i = 3; i < inputs.size(); ++i) extra.push_back(inputs[i].dtype);
  const Shape& w = inputs[1].shape;
  double terms = 1;
  for (int64_t i = 1; i < w.rank(); ++i) terms *= static_cast<double>(w[i].value());
  const Expr tail = expr(inputs[0].dtype, extra);
  // As in matmul: the result is rounded to its type before the epilogue reads it, and partial sums of
  // products of numbers in [-2, 2] grow to about 2 sqrt(terms).
  const double rounding = tail.steps.empty() ? 0 : epsilon(inputs[0].dtype) / epsilon(DType::f32);
  return {.ulps = 2 + rounding + tail.ulps(), .terms = terms, .scale = 4 * std::sqrt(std::max(terms, 1.0))};
}

Value conv(Value x, Value w, Value bias, const ConvOptions& options) {
  auto op = std::make_shared<Conv>();
  op->strides = options.strides;
  op->dilations = options.dilations;
  op->pads = options.pads;
  op->groups = options.groups;
  op->layout = options.layout;
  return x.graph().add_value(std::move(op), {x, w, bias});
}

namespace ops {
void register_conv(OpTable& table) {
  table.add(
      {.name = Conv::kName,
       .formula =
           "y[n, m, o..] = epilogue(bias[m] + sum_c,k x[n, c, o*stride + k*dilation - pad] * w[m, c, k])",
       .operands = "x w bias extra...",
       .types = "f32 f16 bf16",
       .samples =
           {
               "conv(T[2,5,7,6], T[3,5,1,1])",
               "conv(T[1,3,17,9], T[8,3,3,3], T[8]) {pads=[1,1,1,1]}",
               "conv(T[2,4,9,8], T[6,4,3,3]) {strides=[2,2], pads=[1,1,1,1]}",
               "conv(T[1,8,14,14], T[16,8,1,1], T[16]) {strides=[2,2]}",
               "conv(T[1,4,11,10], T[3,4,3,3]) {dilations=[2,2], pads=[2,2,2,2]}",
               "conv(T[1,6,7,7], T[9,2,3,3], T[9]) {groups=3}",
               // Depthwise, with one filter for each channel and with two.
               "conv(T[2,17,8,9], T[17,1,3,3], T[17]) {groups=17, pads=[1,1,1,1]}",
               "conv(T[1,8,9,8], T[16,1,5,5]) {groups=8, strides=[2,2], pads=[2,2,2,2]}",
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
               "conv(T[0,3,5,5], T[4,3,3,3], T[4])",
               "conv(T[2,0,5,5], T[4,0,3,3], T[4])",
               "conv(T[1,2,0,3], T[4,2,1,1], T[4]) {pads=[1,0,1,0]}",
               "conv(T[1,1,1,1], T[1,1,1,1])",
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
               "conv(T[1,66,64,64], T[8,64,3,3]) {layout=\"channels_last\", strides=[2,2]}",
               "conv(T[1,128,5,5], T[256,128,3,3], T[256])",
               "conv(T[1,3,65,66], T[64,3,3,3]) {pads=[1,1,1,1], epilogue=\"relu($0)\"}",
           },
       .make = [] { return std::make_shared<Conv>(); }});
}
}  // namespace ops

}  // namespace rlx
