// Discrete Fourier transforms: the ops fft and irfft, and the functions that are made of them. How the device
// computes one is in fft_variants.cpp and fft_passes.cpp.
#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <utility>
#include <vector>

#include "base/fail.h"
#include "ir/reference.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "ops/spectra/dft.h"
#include "ops/spectra/fft_transform.h"
#include "rlx/ops/spectra.h"

namespace rlx {
namespace {

// Attributes that both have.
struct Common {
  int64_t axis = -1;
  int64_t n = 0;
  FftNorm norm = FftNorm::backward;

  void visit(AttributeVisitor& v) {
    v("axis", axis, -1);
    v("n", n, 0);
    v.choice("norm", norm, {"backward", "ortho", "forward"}, std::optional(FftNorm::backward));
  }
  double factor(int64_t length, bool inverse) const {
    if (norm == FftNorm::ortho) return 1 / std::sqrt(static_cast<double>(length));
    return (norm == FftNorm::backward) == inverse ? 1 / static_cast<double>(length) : 1;
  }
  // Errors are relative to the root of the sum of the squares of x, and grow with the number of steps; the
  // three transforms of a chirp are of up to four times the length. Values of x are below 2 in the sweep.
  Tolerance tolerance(int64_t length, bool inverse) const {
    const auto size = static_cast<double>(length);
    return {.ulps = 8 + 4 * std::log2(size), .scale = 4 * std::sqrt(size) * factor(length, inverse)};
  }
};

int64_t known_length(const InferArgs& in, int64_t axis) {
  const Dim& length = in.shape(0)[axis];
  if (!length.is_static())
    fail("{}: axis {} of {} must have a known length, or n must be given", in.op(), axis, in.shape(0).text());
  return length.value();
}

void check_length(const InferArgs& in, int64_t n) {
  if (n < 1)
    fail("{}: {} elements of {} cannot be transformed; there must be at least 1", in.op(), n,
         in.shape(0).text());
  if (n > int64_t{1} << 30)
    fail("{}: {} elements are too many; there can be {}", in.op(), n, int64_t{1} << 30);
}

int64_t length_from_bins(const InferArgs& in, int64_t axis) {
  const int64_t bins = known_length(in, axis);
  if (bins < 2) {
    fail("{}: axis {} of {} has {}; without n there must be at least 2 bins, which give 2 (bins - 1) floats",
         in.op(), axis, in.shape(0).text(), bins == 1 ? "1 bin" : "no bins");
  }
  return 2 * (bins - 1);
}

// The first elements of rows.
Operand first_of(const Operand& rows, int64_t count) {
  const int64_t last = rows.view.rank() - 1;
  return rows.with_view(rows.view.slice(last, 0, std::min(count, rows.view.dims.back())), rows.outer_rank);
}

void lower_transform(Lowering& l, std::string_view op, int64_t axis, FftTransform t) {
  if (l.out().view.elements() == 0) return;
  if (l.in(0).view.elements() == 0) return lower_fill(l, l.out(), 0);
  const int64_t at = normal_axis(axis, l.out().view.rank());
  t.signal = t.n;
  t.x = first_of(as_rows(l.in(0), {at}), t.mirror ? t.n / 2 + 1 : t.n);
  t.y = as_rows(l.out(), {at});
  lower_fft(l, op, t);
}

// Calls f(row of x, row of y) for all rows along the axis.
template <class From, class To, class F>
void for_each_row(const std::vector<From>& x, int64_t x_length, std::vector<To>& y,
                  const std::vector<int64_t>& dims, int64_t axis, F&& f) {
  const auto at = static_cast<size_t>(normal_axis(axis, std::ssize(dims)));
  const int64_t y_length = dims[at];
  int64_t inner = 1;
  for (size_t i = at + 1; i < dims.size(); ++i) inner *= dims[i];
  if (y.empty()) return;
  const int64_t rows = std::ssize(y) / y_length;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t outer = row / inner;
    ComplexList from;
    for (int64_t i = 0; i < x_length; ++i)
      from.emplace_back(x[static_cast<size_t>((outer * x_length + i) * inner + row % inner)]);
    const std::vector<To> to = f(std::move(from));
    for (int64_t i = 0; i < y_length; ++i)
      y[static_cast<size_t>((outer * y_length + i) * inner + row % inner)] = to[static_cast<size_t>(i)];
  }
}

struct Fft final : OpOf<Fft> {
  static constexpr auto kName = "fft";
  Common o;
  bool inverse = false;
  bool onesided = false;

  void visit_attributes(AttributeVisitor& v) override {
    o.visit(v);
    v("inverse", inverse, false);
    v("onesided", onesided, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, is_float(in.dtype(0)) || in.dtype(0) == DType::c64, "a float type or c64");
    if (onesided && in.dtype(0) == DType::c64) {
      fail(
          "fft: half of the bins (rfft, onesided) are all only of floats, but x is {}; use fft, which has "
          "all",
          TensorType{in.dtype(0), in.shape(0)}.text());
    }
    Shape shape = in.shape(0);
    const int64_t axis = in.axis(o.axis, shape.rank());
    if (o.n == 0 && !onesided && !shape[axis].is_static()) return {TensorType{DType::c64, shape}};
    const int64_t length = o.n != 0 ? o.n : known_length(in, axis);
    check_length(in, length);
    shape[axis] = onesided ? length / 2 + 1 : length;
    return {TensorType{DType::c64, shape}};
  }
  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const int64_t had = x.dims[static_cast<size_t>(normal_axis(o.axis, std::ssize(x.dims)))];
    const int64_t length = o.n != 0 ? o.n : had;
    const auto transformed = [&](ComplexList row) {
      row.resize(static_cast<size_t>(length));
      row = dft(row, inverse);
      for (std::complex<double>& v : row) v *= o.factor(length, inverse);
      return row;
    };
    RefTensor& y = r.out();
    if (x.dtype == DType::c64) {
      for_each_row(x.complex, had, y.complex, y.dims, o.axis, transformed);
    } else {
      for_each_row(x.real, had, y.complex, y.dims, o.axis, transformed);
    }
  }
  void lower(Lowering& l) const override {
    const Dims& dims = l.in(0).view.dims;
    const int64_t length = o.n != 0 ? o.n : dims[static_cast<size_t>(normal_axis(o.axis, std::ssize(dims)))];
    if (length == 0) return;
    lower_transform(l, kName, o.axis, {.n = length, .inverse = inverse, .scale = o.factor(length, inverse)});
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    return o.tolerance(o.n != 0 ? o.n : std::max<int64_t>(1, x[normal_axis(o.axis, x.rank())].value()),
                       inverse);
  }
};

struct Irfft final : OpOf<Irfft> {
  static constexpr auto kName = "irfft";
  Common o;

  void visit_attributes(AttributeVisitor& v) override { o.visit(v); }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, in.dtype(0) == DType::c64, "c64");
    Shape shape = in.shape(0);
    const int64_t axis = in.axis(o.axis, shape.rank());
    const int64_t length = o.n != 0 ? o.n : length_from_bins(in, axis);
    check_length(in, length);
    shape[axis] = length;
    return {TensorType{DType::f32, shape}};
  }
  void reference(RefContext& r) const override {
    RefTensor& y = r.out();
    const auto at = static_cast<size_t>(normal_axis(o.axis, std::ssize(y.dims)));
    const auto length = static_cast<size_t>(y.dims[at]);
    for_each_row(r.in(0).complex, r.in(0).dims[at], y.real, y.dims, o.axis, [&](ComplexList row) {
      row.resize(length / 2 + 1);
      row.resize(length);
      row[0] = row[0].real();
      if (length % 2 == 0) row[length / 2] = row[length / 2].real();
      for (size_t i = length / 2 + 1; i < length; ++i) row[i] = std::conj(row[length - i]);
      std::vector<double> out;
      for (const std::complex<double>& v : dft(row, true))
        out.push_back(v.real() * o.factor(static_cast<int64_t>(length), true));
      return out;
    });
  }
  void lower(Lowering& l) const override {
    const Dims& dims = l.out().view.dims;
    const int64_t length = dims[static_cast<size_t>(normal_axis(o.axis, std::ssize(dims)))];
    lower_transform(l, kName, o.axis,
                    {.n = length, .mirror = true, .inverse = true, .scale = o.factor(length, true)});
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    return o.tolerance(o.n != 0 ? o.n : 2 * (x[normal_axis(o.axis, x.rank())].value() - 1), true);
  }
};

Value add_fft(const Value& x, const FftOptions& options, bool inverse, bool onesided) {
  auto op = std::make_shared<Fft>();
  op->o = {.axis = options.axis, .n = options.n, .norm = options.norm};
  op->inverse = inverse;
  op->onesided = onesided;
  return add_node(op, {x});
}

std::vector<int64_t> axes_or_all(const Value& x, std::vector<int64_t> axes) {
  if (axes.empty()) return axes_from(0, x.shape().rank());
  return axes;
}

}  // namespace

Value fft(Value x, const FftOptions& options) { return add_fft(x, options, false, false); }
Value ifft(Value x, const FftOptions& options) { return add_fft(x, options, true, false); }
Value rfft(Value x, const FftOptions& options) { return add_fft(x, options, false, true); }
Value irfft(Value x, const FftOptions& options) {
  auto op = std::make_shared<Irfft>();
  op->o = {.axis = options.axis, .n = options.n, .norm = options.norm};
  return add_node(op, {x});
}

Value fftn(Value x, std::vector<int64_t> axes, FftNorm norm) {
  for (const int64_t axis : axes_or_all(x, std::move(axes))) x = fft(x, {.axis = axis, .norm = norm});
  return x;
}
Value ifftn(Value x, std::vector<int64_t> axes, FftNorm norm) {
  for (const int64_t axis : axes_or_all(x, std::move(axes))) x = ifft(x, {.axis = axis, .norm = norm});
  return x;
}
Value rfftn(Value x, std::vector<int64_t> axes, FftNorm norm) {
  axes = axes_or_all(x, std::move(axes));
  if (axes.empty()) fail("rfftn: there is no axis");
  x = rfft(x, {.axis = axes.back(), .norm = norm});
  axes.pop_back();
  return axes.empty() ? x : fftn(x, std::move(axes), norm);
}
Value irfftn(Value x, std::vector<int64_t> axes, int64_t n, FftNorm norm) {
  axes = axes_or_all(x, std::move(axes));
  if (axes.empty()) fail("irfftn: there is no axis");
  const int64_t last = axes.back();
  axes.pop_back();
  if (!axes.empty()) x = ifftn(x, std::move(axes), norm);
  return irfft(x, {.axis = last, .n = n, .norm = norm});
}

namespace ops {
void register_fft(OpTable& table) {
  table.add<Fft>(
      {.formula = "y[k] = factor * sum over t of x[t] exp(-2 pi i t k / n) (inverse: +), t < n; onesided: k "
                  "<= n / 2",
       .operands = "x (float c64): what is transformed",
       .attributes = "axis: along which to transform\n"
                     "n: how many elements are transformed: x is cut, or zeros are added at its "
                     "end; 0: all of x\n"
                     "norm: which direction divides by n; ortho: both, by its square root\n"
                     "inverse: the transform from bins back to a signal\n"
                     "onesided: only the bins 0 .. n / 2; x must not be complex",
       .outputs = "y (c64): the transform",
       .types = "f32 f16 bf16 c64",
       .variants = fft_variants(),
       .samples = {"fft(T[3,16])", "fft(T[1])", "fft(T[17,3]) {axis=0}", "fft(T[2,257])", "fft(T[0,4])",
                   "fft(T[3,0]) {n=4}", "fft(T[7,60]) {inverse=true, norm=\"ortho\"}",
                   "fft(c64[2,12,5]) {axis=-2, n=8, norm=\"forward\"}",
                   "fft(c64[2,12,5]) {axis=1, n=17, inverse=true}", "fft(f32[3,1000]) {onesided=true}",
                   "fft(c64[7,1024])", "fft(f32[2,2048])", "fft(c64[131072])", "fft(c64[50653])",
                   "fft(f32[1155,57]) {axis=0, onesided=true}", "fft(f32[17000]) {n=16411}"}});
  table.add<Irfft>({.formula = "the n floats whose bins 0 .. n / 2 are x",
                    .operands = "x: the bins 0 .. n / 2",
                    .attributes = "axis: along which to transform\n"
                                  "n: how many floats the result has; 0: 2 (bins - 1)\n"
                                  "norm: which direction divides by n; ortho: both, by its square root",
                    .outputs = "y (f32): n floats along the axis",
                    .types = "c64",
                    .variants = fft_variants(),
                    .samples = {"irfft(T[3,9])", "irfft(T[2,9]) {n=17}", "irfft(T[5,3]) {axis=0, n=1}",
                                "irfft(T[4,2]) {n=8}", "irfft(T[2,129]) {n=257, norm=\"ortho\"}",
                                "irfft(T[0,3])", "irfft(T[2,0]) {n=3}",
                                "irfft(T[7,3,2]) {axis=1, n=2, norm=\"forward\"}", "irfft(T[9001])"}});
}
}  // namespace ops

}  // namespace rlx
