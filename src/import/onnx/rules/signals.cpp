// Spectra and what belongs to them.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/spectra.h"

namespace rlx::onnx {
namespace {

// [.., 1] are real numbers, [.., 2] complex ones; the result has no such axis.
Value signal(Call& c, const Value& x) {
  const Shape& shape = x.shape();
  const int64_t last = shape.rank() - 1;
  if (last < 1 || !(shape[last].is(1) || shape[last].is(2)))
    fail("its input {} must have a last axis of 1 (real) or 2 (complex)", shape.text());
  if (shape[last].is(2)) return view_as_complex(cast(x, DType::f32));
  Shape rest;
  for (int64_t axis = 0; axis < last; ++axis) rest.push_back(shape[axis]);
  c.carried(c.type(0));
  return reshape(x, rest);
}

// Complex numbers as pairs, floats as lists of one.
Value pairs(const Value& y, DType dtype) {
  if (y.dtype() == DType::c64) return cast(view_as_real(y), dtype);
  Shape shape = y.shape();
  shape.push_back(1);
  return cast(reshape(y, shape), dtype);
}

void dft_rule(Call& c) {
  c.expect_inputs(1, 3);
  const Value x = c.in(0);
  const int64_t rank = x.shape().rank();
  const bool as_input = c.opset() >= 20;
  const int64_t given = !as_input ? c.integer("axis", 1) : c.has(2) ? c.number(2, "the axis") : -2;
  const int64_t axis = Call::normalized(given, rank);
  if (axis == rank - 1) fail("its axis {} is that of real and imaginary parts", given);
  const int64_t n = c.has(1) ? c.number(1, "dft_length") : 0;
  if (c.has(1) && n < 1) fail("its dft_length is {}; it must be at least 1", n);
  const FftOptions options{.axis = axis, .n = n};
  const bool inverse = c.flag("inverse", false);
  const bool onesided = c.flag("onesided", false);
  const Value z = signal(c, x);
  if (inverse && onesided) {
    if (z.dtype() != DType::c64)
      fail("a onesided inverse needs complex numbers, but its input is {}", x.shape().text());
    return c.out(pairs(irfft(z, options), x.dtype()));
  }
  c.out(pairs(inverse ? ifft(z, options) : onesided ? rfft(z, options) : fft(z, options), x.dtype()));
}

void stft_rule(Call& c) {
  c.expect_inputs(2, 4);
  const Value x = c.in(0);
  if (c.rank(0) != 3) fail("its signal {} must be [batch, samples, 1 or 2]", x.shape().text());
  StftOptions options{.hop = c.number(1, "frame_step"), .onesided = c.flag("onesided", true)};
  if (options.hop < 1) fail("its frame_step is {}; it must be at least 1", options.hop);
  options.window = c.optional(2);
  if (c.has(3)) {
    options.frame = c.number(3, "frame_length");
  } else if (options.window && options.window.shape().rank() == 1 && options.window.shape()[0].is_static()) {
    options.frame = options.window.shape()[0].value();
  } else {
    fail("it has neither a frame_length nor a window of known length");
  }
  c.out(pairs(stft(signal(c, x), options), x.dtype()));
}

void window_rule(Call& c) {
  c.expect_inputs(1, 1);
  const int64_t n = c.number(0, "the size");
  const bool periodic = c.flag("periodic", true);
  const ElementType type = c.element_type("output_datatype", ElementType::float32);
  const DType dtype = c.carried(type);
  const std::vector<double> coefficients = c.op() == "HannWindow"      ? std::vector{0.5, 0.5}
                                           : c.op() == "HammingWindow" ? std::vector{25.0 / 46, 21.0 / 46}
                                                                       : std::vector{0.42, 0.5, 0.08};
  const DType made = is_float(dtype) ? dtype : DType::f32;
  c.out(0, cast(cosine_window(c.graph(), n, coefficients, periodic, made), dtype), type);
}

void mel_rule(Call& c) {
  c.expect_inputs(5, 5);
  const ElementType type = c.element_type("output_datatype", ElementType::float32);
  const DType dtype = c.carried(type);
  const Value y =
      mel_weights(c.graph(), c.number(0, "num_mel_bins"), c.number(1, "dft_length"),
                  c.number(2, "sample_rate"), c.real(3, "lower_edge_hertz"), c.real(4, "upper_edge_hertz"));
  c.out(0, cast(y, dtype), type);
}

}  // namespace

namespace rules {
void register_signals(RuleTable& table) {
  table.add("DFT", dft_rule);
  table.add("STFT", stft_rule);
  table.add("HannWindow", window_rule);
  table.add("HammingWindow", window_rule);
  table.add("BlackmanWindow", window_rule);
  table.add("MelWeightMatrix", mel_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
