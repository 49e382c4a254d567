// Features of sound: power spectra, their peaks, mel filters, convolutions through spectra. All are
// compositions of other ops, so that their elements fuse with what comes before and after.
#include <cmath>
#include <numbers>

#include "base/fail.h"
#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/spectra.h"

namespace rlx {
namespace {

// What Whisper and its kin take the logarithm of at least, and how far below the maximum it may be.
constexpr double kLeastEnergy = 1e-10;
constexpr double kMelRange = 8;
// An element so near to the floor counts as clamped to it, and has no gradient.
constexpr double kFloorMargin = 1e-6;

void expect_spectra(std::string_view function, const Value& z, int64_t least_rank) {
  if (z.dtype() != DType::c64 || z.shape().rank() < least_rank)
    fail("{}: the spectra {} must be c64[{}bins]", function, z.type().text(),
         least_rank > 1 ? ".., segments, " : ".., ");
}

int64_t known_bins(std::string_view function, const Value& z) {
  const Dim& bins = z.shape()[z.shape().rank() - 1];
  if (!bins.is_static() || bins.is(0))
    fail("{}: the number of bins of {} must be known and at least 1", function, z.shape().text());
  return bins.value();
}

// |z|^2; parts rather than pairs, since element-wise steps fuse and reductions of two do not.
Value power(const Value& z) { return square(real(z)) + square(imag(z)); }

// How many samples the spectra are of.
int64_t transform_length(std::string_view function, int64_t bins, int64_t n, bool onesided) {
  const int64_t length = n != 0 ? n : onesided ? std::max<int64_t>(1, 2 * (bins - 1)) : bins;
  if (n < 0 || (onesided ? length / 2 + 1 : length) != bins)
    fail("{}: {} bins are not those of {} samples{}", function, bins, length,
         onesided ? ", of which the bins 0 .. n / 2 are wanted" : "");
  return length;
}

// How often each of the bins 0 .. n / 2 counts: those without a mirror image once, the others twice.
Value mirror_weights(Graph& graph, int64_t n) {
  std::vector<double> w(static_cast<size_t>(n / 2 + 1), 2);
  w.front() = 1;
  if (n % 2 == 0) w.back() = 1;
  return graph.constant(Tensor::from_doubles(DType::f32, {std::ssize(w)}, w));
}

// --- Mel ---

struct MelEnergies {
  Value used;      // the spectra without what mirrors the bins before it
  Value energies;  // [.., mels]
  Value levels;    // their logarithms
  Value floor;     // the least that levels may be, [.., 1]
};

MelEnergies mel_energies(std::string_view function, const Value& spectra, const Value& filters,
                         MelMaximum maximum) {
  expect_spectra(function, spectra, 1);
  const int64_t bins = known_bins(function, spectra);
  const Shape& shape = filters.shape();
  if (shape.rank() != 2 || !is_float(filters.dtype()))
    fail("{}: the filters {} must be floats [mels, bins]", function, filters.type().text());
  if (!shape[1].is(bins) && !shape[1].is(bins / 2 + 1))
    fail("{}: the filters {} must be for the {} bins of the spectra, or the first {} of them", function,
         shape.text(), bins, bins / 2 + 1);
  MelEnergies m;
  m.used = slice(spectra, -1, 0, shape[1]);
  m.energies = matmul(power(m.used), transpose(cast(filters, DType::f32)));
  m.levels = log2(rlx::maximum(m.energies, kLeastEnergy)) * (std::numbers::ln2 / std::numbers::ln10);
  const bool whole = maximum == MelMaximum::clip && m.levels.shape().rank() > 1;
  m.floor = max(m.levels, whole ? std::vector<int64_t>{-2, -1} : std::vector<int64_t>{-1}, true) - kMelRange;
  return m;
}

// --- Convolutions ---

// The least even number from n on whose only prime factors are 2, 3 and 5, with at most one step of these.
int64_t fast_length(int64_t n) {
  int64_t best = 0;
  for (const int64_t odd : {1, 3, 5, 9, 15, 25}) {
    int64_t length = 2 * odd;
    while (length < n) length *= 2;
    if (best == 0 || length < best) best = length;
  }
  return best;
}

int64_t length_along(const Value& x, int64_t axis) {
  const int64_t rank = x.shape().rank();
  if (axis < -rank || axis >= rank) fail("fft_conv: there is no axis {} in {}", axis, x.shape().text());
  const Dim& length = x.shape()[axis < 0 ? axis + rank : axis];
  if (!length.is_static() || length.is(0))
    fail("fft_conv: the length of {} along axis {} must be known and at least 1", x.shape().text(), axis);
  return length.value();
}

}  // namespace

Value psd(Value spectra, const PsdOptions& options) {
  expect_spectra("psd", spectra, 1);
  const int64_t n = transform_length("psd", known_bins("psd", spectra), options.n, options.onesided);
  const Value density = power(spectra) / static_cast<double>(n);
  return options.onesided ? density * mirror_weights(spectra.graph(), n) : density;
}

SpectralPeaks welch_peaks(Value spectra, int64_t k, const WelchOptions& options) {
  expect_spectra("welch_peaks", spectra, 2);
  if (k < 1) fail("welch_peaks: {} peaks are wanted; there must be at least 1", k);
  const int64_t rank = spectra.shape().rank();
  const int64_t n =
      transform_length("welch_peaks", known_bins("welch_peaks", spectra), options.n, options.onesided);
  const int64_t bins = n / 2 + 1;
  const Value mean_power = mean(power(slice(spectra, -1, 0, bins)), {rank - 2});
  const int64_t found = std::min(k, bins);
  const auto [powers, numbers] = topk(mean_power * mirror_weights(spectra.graph(), n), found);
  if (k == found) return {numbers, powers};
  const std::vector<int64_t> none(static_cast<size_t>(rank - 1), 0);
  std::vector<int64_t> missing(static_cast<size_t>(rank - 2), 0);
  missing.push_back(k - found);
  return {pad(numbers, none, missing, PadMode::constant, -1), pad(powers, none, missing)};
}

// HTK's mel scale is logarithmic throughout, Slaney's linear below 1 kHz.
double hertz_to_mel(double hertz, MelScale scale) {
  if (scale == MelScale::htk) return 2595 * std::log10(1 + hertz / 700);
  return hertz < 1000 ? hertz * 3 / 200 : 15 + 27 * std::log(hertz / 1000) / std::log(6.4);
}
double mel_to_hertz(double mel, MelScale scale) {
  if (scale == MelScale::htk) return 700 * (std::pow(10, mel / 2595) - 1);
  return mel < 15 ? mel * 200 / 3 : 1000 * std::pow(6.4, (mel - 15) / 27);
}

Value mel_filters(Graph& graph, int64_t mels, int64_t dft_length, double sample_rate,
                  const MelOptions& options) {
  const double high = options.high != 0 ? options.high : sample_rate / 2;
  if (mels < 1 || dft_length < 1 || !(sample_rate > 0) || !(options.low >= 0) || !(high > options.low))
    fail(
        "mel_filters: {} filters from {} Hz to {} Hz for {} samples at {} Hz; numbers must be above 0, and "
        "the frequencies ascend from 0 on",
        mels, options.low, high, dft_length, sample_rate);
  const int64_t bins = dft_length / 2 + 1;
  const double first = hertz_to_mel(options.low, options.scale);
  const double step = (hertz_to_mel(high, options.scale) - first) / static_cast<double>(mels + 1);
  const auto edge = [&](int64_t i) {
    return mel_to_hertz(first + step * static_cast<double>(i), options.scale);
  };
  std::vector<double> weights;
  for (int64_t m = 0; m < mels; ++m) {
    const double left = edge(m);
    const double centre = edge(m + 1);
    const double right = edge(m + 2);
    const double peak = options.equal_area ? 2 / (right - left) : 1;
    for (int64_t k = 0; k < bins; ++k) {
      const double hertz = static_cast<double>(k) * sample_rate / static_cast<double>(dft_length);
      const double rise = (hertz - left) / (centre - left);
      const double fall = (right - hertz) / (right - centre);
      weights.push_back(peak * std::max(0.0, std::min(rise, fall)));
    }
  }
  return graph.constant(Tensor::from_doubles(DType::f32, {mels, bins}, weights));
}

Value log_mel(Value spectra, Value filters, MelMaximum maximum) {
  const MelEnergies m = mel_energies("log_mel", spectra, filters, maximum);
  return (rlx::maximum(m.levels, m.floor) + 4) / 4;
}

Value log_mel_backward(Value spectra, Value filters, Value dy, MelMaximum maximum) {
  const MelEnergies m = mel_energies("log_mel_backward", spectra, filters, maximum);
  if (dy.shape() != m.levels.shape())
    fail("log_mel_backward: the gradient {} must have the dims of the levels, {}", dy.shape().text(),
         m.levels.shape().text());
  const Value counts =
      logical_and(greater(m.levels, m.floor + kFloorMargin), greater(m.energies, kLeastEnergy));
  const Value slope = cast(dy, DType::f32) / (m.energies * (4 * std::numbers::ln10));
  const Value by_bin = matmul(where(counts, slope, 0), cast(filters, DType::f32)) * 2;
  Shape column = by_bin.shape();
  column.push_back(1);
  Value pairs = view_as_real(m.used) * reshape(by_bin, column);
  std::vector<int64_t> none(static_cast<size_t>(column.rank()), 0);
  std::vector<int64_t> mirrored = none;
  const int64_t axis = column.rank() - 2;
  mirrored[static_cast<size_t>(axis)] = spectra.shape()[axis].value() - column[axis].value();
  return view_as_complex(pad(pairs, none, mirrored));
}

Value fft_conv(Value a, Value b, const FftConvOptions& options) {
  const int64_t la = length_along(a, options.axis);
  const int64_t lb = length_along(b, options.axis);
  const bool is_complex = a.dtype() == DType::c64 || b.dtype() == DType::c64;
  for (const Value& x : {a, b}) {
    if (!is_float(x.dtype()) && x.dtype() != DType::c64)
      fail("fft_conv: the input {} must have a float type or c64", x.type().text());
  }
  const int64_t all = la + lb - 1;
  const FftOptions o{.axis = options.axis, .n = fast_length(all)};
  const Value product = is_complex ? fft(a, o) * fft(b, o) : rfft(a, o) * rfft(b, o);
  Value y = is_complex ? ifft(product, o) : irfft(product, o);
  int64_t length = all;
  if (options.mode == ConvolutionMode::same) length = la;
  if (options.mode == ConvolutionMode::valid) length = std::abs(la - lb) + 1;
  const int64_t rank = y.shape().rank();
  y = slice(y, options.axis < 0 ? options.axis + rank : options.axis, (all - length) / 2, length);
  return is_complex ? y : cast(y, a.dtype());
}

namespace {

using Inputs = std::vector<Value>;

struct Psd final : Composite<Psd> {
  static constexpr auto kName = "psd";
  static constexpr int64_t kLeast = 1, kMost = 1;
  PsdOptions o;
  void visit_attributes(AttributeVisitor& v) override {
    v("n", o.n, 0);
    v("onesided", o.onesided, false);
  }
  Inputs make(Graph&, const Inputs& in) const { return {psd(in[0], o)}; }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 8}; }
};

struct WelchPeaks final : Composite<WelchPeaks> {
  static constexpr auto kName = "welch_peaks";
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t k = 1;
  WelchOptions o;
  void visit_attributes(AttributeVisitor& v) override {
    v("k", k);
    v("n", o.n, 0);
    v("onesided", o.onesided, true);
  }
  Inputs make(Graph&, const Inputs& in) const {
    const auto [bins, powers] = welch_peaks(in[0], k, o);
    return {bins, powers};
  }
  // Sums of what is never negative lose nothing.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& s = inputs[0].shape;
    return {.ulps = 8, .terms = static_cast<double>(std::max<int64_t>(1, s[s.rank() - 2].value()))};
  }
};

template <class Self>
struct Mel : Composite<Self> {
  MelMaximum maximum = MelMaximum::frame;
  void visit_attributes(AttributeVisitor& v) override {
    v.choice("maximum", maximum, {"frame", "clip"}, std::optional(MelMaximum::frame));
  }
  static double bins(std::span<const TensorType> inputs) {
    return static_cast<double>(inputs[1].shape[1].value());
  }
};
struct LogMel final : Mel<LogMel> {
  static constexpr auto kName = "log_mel";
  static constexpr int64_t kLeast = 2, kMost = 2;
  Inputs make(Graph&, const Inputs& in) const { return {log_mel(in[0], in[1], maximum)}; }
  // The relative error of an energy is an absolute one of its logarithm, which may be 0.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return {.ulps = 8, .terms = bins(inputs), .scale = 1};
  }
};
struct LogMelBackward final : Mel<LogMelBackward> {
  static constexpr auto kName = "log_mel_backward";
  static constexpr int64_t kLeast = 3, kMost = 3;
  Inputs make(Graph&, const Inputs& in) const { return {log_mel_backward(in[0], in[1], in[2], maximum)}; }
  // Slopes are about dy / bins, and add up over the filters with either sign.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return {.ulps = 16, .terms = bins(inputs) + static_cast<double>(inputs[1].shape[0].value()), .scale = 1};
  }
};

struct FftConv final : Composite<FftConv> {
  static constexpr auto kName = "fft_conv";
  static constexpr int64_t kLeast = 2, kMost = 2;
  FftConvOptions o;
  void visit_attributes(AttributeVisitor& v) override {
    v("axis", o.axis, -1);
    v.choice("mode", o.mode, {"full", "same", "valid"}, std::optional(ConvolutionMode::full));
  }
  Inputs make(Graph&, const Inputs& in) const { return {fft_conv(in[0], in[1], o)}; }
  // As of a transform: relative to the product of the lengths of both as vectors, of values below 2.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    double size = 1;
    for (const TensorType& t : inputs)
      size *= static_cast<double>(t.shape[o.axis < 0 ? o.axis + t.shape.rank() : o.axis].value());
    return {.ulps = 16 + 8 * std::log2(size), .scale = 4 * std::sqrt(size)};
  }
};

}  // namespace

namespace ops {
void register_audio(OpTable& table) {
  table.add<Psd>({.formula = "|x|^2 / n; onesided: times 2 where a bin stands for its mirror image too",
                  .operands = "spectra: [.., bins]",
                  .attributes = "n: how many samples the spectra are of; 0: as many as bins, or 2 (bins - "
                                "1) if onesided\n"
                                "onesided: the spectra have only the bins 0 .. n / 2",
                  .outputs = "y (f32): the power spectral density, [.., bins]",
                  .types = "c64",
                  .variants = {"expanded"},
                  .samples = {"psd(T[3,17])", "psd(T[2,3,9]) {onesided=true}",
                              "psd(T[9]) {n=17, onesided=true}", "psd(T[0,4])"}});
  table.add<WelchPeaks>(
      {.formula =
           "the bins (-1 where there are no more) of the k largest means over segments of |spectra|^2, "
           "doubled where mirrored, in descending order; and these means (0)",
       .operands = "spectra: [.., segments, bins]",
       .attributes = "k: how many peaks\n"
                     "n: how many samples the spectra are of; 0: 2 (bins - 1), or as many as "
                     "bins if not onesided\n"
                     "onesided: the spectra have only the bins 0 .. n / 2; if not, those after n "
                     "/ 2 are ignored",
       .outputs = "bins (i64): [.., k], where the peaks are, the largest first; -1 where "
                  "there are no more\n"
                  "powers (f32): [.., k], their mean power; 0 where there are no more",
       .types = "c64",
       .variants = {"expanded"},
       .samples = {"welch_peaks(T[3,4,17]) {k=5}", "welch_peaks(T[1,600]) {k=70, onesided=false}",
                   "welch_peaks(T[2,3,9]) {k=12, n=17}"}});
  table.add<LogMel>(
      {.formula =
           "(max(l, max l - 8) + 4) / 4, l = log10 max(sum over bins of filters * |spectra|^2, 1e-10); "
           "the maximum is that of each frame or of all frames of a clip",
       .operands = "spectra: [.., bins]\n"
                   "filters (float): [mels, bins], or [mels, bins / 2 + 1] for the first bins",
       .attributes = "maximum: over what the loudest level is found; none is more than 8 decades "
                     "below it",
       .outputs = "y (f32): the levels, [.., mels]",
       .types = "c64",
       .variants = {"expanded"},
       .samples = {"log_mel(T[3,17], f32[5,17] in 0..1)",
                   "log_mel(T[2,3,16], f16[4,9] in 0..1) {maximum=\"clip\"}",
                   "log_mel(T[9], f32[1,9] in 0..1)"}});
  table.add<LogMelBackward>(
      {.formula = "the gradient of log_mel with respect to the spectra, without that through the maximum",
       .operands = "spectra: [.., bins]\n"
                   "filters (float): [mels, bins], or [mels, bins / 2 + 1] for the first bins\n"
                   "dy (float): [.., mels], the gradient with respect to the result of log_mel",
       .attributes = "maximum: over what the loudest level is found; none is more than 8 decades "
                     "below it",
       .outputs = "y: [.., bins], the gradient with respect to the real and imaginary parts "
                  "of the spectra",
       .types = "c64",
       .variants = {"expanded"},
       .samples = {"log_mel_backward(T[3,17], f32[5,17] in 0..1, f32[3,5])",
                   "log_mel_backward(T[2,3,16], f32[4,9] in 0..1, f32[2,3,4]) {maximum=\"clip\"}"}});
  table.add<FftConv>(
      {.formula =
           "y[i] = sum over j of a[j] b[i - j] along the axis, through spectra; all of it, or the middle",
       .operands = "a (float c64): the signal\n"
                   "b (float c64): what it is convolved with; other axes broadcast",
       .attributes = "axis: along which to convolve\n"
                     "mode: which part of the convolution is kept",
       .outputs = "y (float c64): of the type of a, or c64 if either is",
       .types = "f32 f16 bf16 c64",
       .variants = {"expanded"},
       .samples = {"fft_conv(T[3,17], T[5])", "fft_conv(T[2,17,3], T[2,5,1]) {axis=1, mode=\"same\"}",
                   "fft_conv(f32[257], f32[257]) {mode=\"valid\"}", "fft_conv(f32[1], f32[1])"}});
}
}  // namespace ops

}  // namespace rlx
