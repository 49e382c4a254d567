// Windows, frames and filter banks for spectra: compositions of other ops.
#include <cmath>
#include <limits>
#include <numbers>

#include "base/checked.h"
#include "base/fail.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/spectra.h"

namespace rlx {
namespace {

Value vector_of(Graph& graph, const std::vector<double>& values, DType dtype) {
  return graph.constant(Tensor::from_doubles(dtype, {std::ssize(values)}, values));
}

int64_t hop_of(const StftOptions& o) { return o.hop != 0 ? o.hop : std::max<int64_t>(1, o.frame / 4); }

void check_options(std::string_view function, const StftOptions& o) {
  if (o.frame < 1 || o.hop < 0)
    fail("{}: frames have {} elements and are {} apart; both must be at least 1", function, o.frame, o.hop);
  if (o.window && o.window.shape() != Shape{o.frame})
    fail("{}: the window {} must have as many elements as a frame, {}", function, o.window.shape().text(),
         o.frame);
}

// Whether there is a frame, in words of frames and samples rather than of the ops that cut them.
void check_signal(const Value& x, const StftOptions& o) {
  const Shape& shape = x.shape();
  if (shape.rank() == 0) fail("stft: the signal is a scalar");
  if (o.onesided && x.dtype() == DType::c64)
    fail("stft: the signal is c64, which needs all bins; onesided must be false");
  const Dim& last = shape[shape.rank() - 1];
  if (!last.is_static())
    fail("stft: the signal {} must have a known number of samples, not {}", shape.text(), last.text());
  if (o.center && last.value() <= o.frame / 2) {
    fail("stft: the signal {} has {} samples; to be reflected by half of a frame of {} it needs at least {}",
         shape.text(), last.value(), o.frame, o.frame / 2 + 1);
  }
  if (!o.center && last.value() < o.frame)
    fail("stft: the signal {} has {} samples, fewer than a frame, which has {}", shape.text(), last.value(),
         o.frame);
}

// All axes before the last `count` joined.
Value flattened(const Value& x, int64_t count) {
  Shape shape{-1};
  Dim leading = 1;
  for (int64_t axis = 0; axis < x.shape().rank(); ++axis) {
    if (axis < x.shape().rank() - count) {
      leading *= x.shape()[axis];
    } else {
      shape.push_back(x.shape()[axis]);
    }
  }
  shape[0] = leading;
  return reshape(x, shape);
}

}  // namespace

Value fftfreq(Graph& graph, int64_t n, double spacing) {
  if (n < 1) fail("fftfreq: there are {} bins; there must be at least 1", n);
  std::vector<double> f;
  for (int64_t k = 0; k < n; ++k)
    f.push_back(static_cast<double>(k < (n + 1) / 2 ? k : k - n) / (static_cast<double>(n) * spacing));
  return vector_of(graph, f, DType::f32);
}

Value rfftfreq(Graph& graph, int64_t n, double spacing) {
  if (n < 1) fail("rfftfreq: there are {} samples; there must be at least 1", n);
  std::vector<double> f;
  for (int64_t k = 0; k <= n / 2; ++k)
    f.push_back(static_cast<double>(k) / (static_cast<double>(n) * spacing));
  return vector_of(graph, f, DType::f32);
}

Value cosine_window(Graph& graph, int64_t n, const std::vector<double>& coefficients, bool periodic,
                    DType dtype) {
  if (n < 0) fail("cosine_window: a window cannot have {} elements", n);
  if (!is_float(dtype)) fail("cosine_window: the type {} is no float", to_string(dtype));
  const auto length = static_cast<double>(periodic ? n : n - 1);
  std::vector<double> w(static_cast<size_t>(n), 1);  // of one element: 1
  for (int64_t i = 0; i < n && n > 1; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / length;
    double sum = 0;
    double sign = 1;
    for (size_t c = 0; c < coefficients.size(); ++c, sign = -sign)
      sum += sign * coefficients[c] * std::cos(static_cast<double>(c) * angle);
    // What should be 0 must not be the rounding error of the sum: istft divides by squares of windows.
    w[static_cast<size_t>(i)] = std::abs(sum) < 1e-15 ? 0 : sum;
  }
  return vector_of(graph, w, dtype);
}

Value hann_window(Graph& graph, int64_t n, bool periodic, DType dtype) {
  return cosine_window(graph, n, {0.5, 0.5}, periodic, dtype);
}
Value hamming_window(Graph& graph, int64_t n, bool periodic, DType dtype) {
  return cosine_window(graph, n, {0.54, 0.46}, periodic, dtype);
}
Value blackman_window(Graph& graph, int64_t n, bool periodic, DType dtype) {
  return cosine_window(graph, n, {0.42, 0.5, 0.08}, periodic, dtype);
}

Value stft(Value x, const StftOptions& options) {
  check_options("stft", options);
  check_signal(x, options);
  if (options.center) {
    std::vector<int64_t> ends(static_cast<size_t>(x.shape().rank()), 0);
    ends.back() = options.frame / 2;
    x = pad(x, ends, ends, PadMode::reflect);
  }
  Value frames = unfold(x, -1, options.frame, hop_of(options));
  if (options.window) frames = frames * cast(options.window, frames.dtype());
  const FftOptions fft_options{.norm = options.norm};
  return options.onesided ? rfft(frames, fft_options) : fft(frames, fft_options);
}

Value istft(Value spectra, const StftOptions& options, int64_t length) {
  check_options("istft", options);
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the nodes below may move the original
  const Shape shape = spectra.shape();
  if (shape.rank() < 2 || !shape[shape.rank() - 2].is_static())
    fail("istft: the spectra {} must be [.., frames, bins], and the number of frames known", shape.text());
  const int64_t bins = options.onesided ? options.frame / 2 + 1 : options.frame;
  const int64_t count = shape[shape.rank() - 2].value();
  if (!shape[shape.rank() - 1].is(bins) || count < 1)
    fail("istft: the spectra {} must have at least one frame, of {} bins", shape.text(), bins);
  Graph& graph = spectra.graph();
  const FftOptions fft_options{.n = options.frame, .norm = options.norm};
  Value frames = options.onesided ? irfft(spectra, fft_options) : real(ifft(spectra, fft_options));
  const Value window = options.window ? cast(options.window, DType::f32)
                                      : graph.constant(Tensor::full(DType::f32, {options.frame}, 1));
  const int64_t all = options.frame + hop_of(options) * (count - 1);
  const auto joined = [&](const Value& rows) {  // [n, frames, frame]
    return reshape(col2im(transpose(rows, {0, 2, 1}), {all}, {options.frame}, {.strides = {hop_of(options)}}),
                   {rows.shape()[0], all});
  };
  const Value weights = joined(expand(square(window), {1, count, options.frame}));
  // Where no frame reaches with a weight, nothing is known of the signal, and 0 / 0 would be NaN.
  Value y = where(greater_equal(weights, double{std::numeric_limits<float>::min()}),
                  joined(flattened(frames * window, 2)) / weights, 0);
  const int64_t skipped = options.center ? options.frame / 2 : 0;
  const int64_t there = all - 2 * skipped;
  if (length < 0 || (length > there && length > all - skipped))
    fail("istft: {} samples are wanted, but the frames have {}", length, there);
  y = slice(y, 1, skipped, length != 0 ? length : there);
  Shape out;
  for (int64_t axis = 0; axis + 2 < shape.rank(); ++axis) out.push_back(shape[axis]);
  out.push_back(y.shape()[1]);
  return reshape(y, out);
}

Value mel_weights(Graph& graph, int64_t bins, int64_t dft_length, int64_t sample_rate, double low,
                  double high, DType dtype) {
  if (bins < 1 || dft_length < 1 || sample_rate < 1 || !(low >= 0) || !(high > low))
    fail(
        "mel_weights: {} bins from {} Hz to {} Hz for {} elements at {} Hz; numbers must be at least 1, and "
        "the frequencies ascend from 0 on",
        bins, low, high, dft_length, sample_rate);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  const int64_t rows = dft_length / 2 + 1;
  std::vector<int64_t> edges;  // of the triangles, in bins of the spectrum
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(dft_length + 1) * hertz / static_cast<double>(sample_rate))));
    if (edges.back() >= rows)
      fail("mel_weights: {} Hz lies beyond the last of {} bins at {} Hz", hertz, rows, sample_rate);
  }
  std::vector<double> weights(static_cast<size_t>(rows * bins), 0);
  for (int64_t i = 0; i < bins; ++i) {
    const auto at = [&](int64_t row) -> double& { return weights[static_cast<size_t>(row * bins + i)]; };
    const int64_t left = edges[static_cast<size_t>(i)];
    const int64_t center = edges[static_cast<size_t>(i + 1)];
    const int64_t right = edges[static_cast<size_t>(i + 2)];
    at(center) = 1;
    for (int64_t j = left; j < center; ++j)
      at(j) = static_cast<double>(j - left) / static_cast<double>(center - left);
    for (int64_t j = center; j < right; ++j)
      at(j) = static_cast<double>(right - j) / static_cast<double>(right - center);
  }
  return graph.constant(Tensor::from_doubles(dtype, {rows, bins}, weights));
}

}  // namespace rlx
