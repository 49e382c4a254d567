// Features of sound on the device against SciPy, NumPy and PyTorch (tests/fixtures/make_audio.py), and how
// errors of Fourier transforms grow.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "base/format.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/spectra.h"
#include "rlx/safetensors.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

const SafetensorsFile& fixtures() {
  static const auto file = SafetensorsFile::open(in_source("tests/fixtures/audio.safetensors"));
  return file;
}

// The numbers that the script's function of this name makes: no bin of their spectrum stands out.
Tensor noise(const std::vector<int64_t>& dims) {
  const int64_t n = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> x;
  for (int64_t t = 1; t <= n; ++t) {
    auto h = static_cast<uint32_t>(t);
    h = (h ^ (h >> 16)) * 0x7feb352dU;
    h = (h ^ (h >> 15)) * 0x846ca68bU;
    h ^= h >> 16;
    x.push_back(static_cast<float>(h >> 8) / 8388608.0F - 1.0F);
  }
  return Tensor::of(dims, x);
}

Graph function_graph(const std::string& call, const NamedTensors& inputs) {
  std::istringstream words(call.substr(1));
  std::string function;
  words >> function;
  Graph g;
  if (function == "filters") {
    int64_t mels = 0;
    int64_t n = 0;
    int htk = 0;
    double rate = 0;
    MelOptions o;
    words >> mels >> n >> rate >> o.low >> o.high >> htk >> o.equal_area;
    o.scale = htk != 0 ? MelScale::htk : MelScale::slaney;
    g.output("y", mel_filters(g, mels, n, rate, o));
  } else {
    const Value x = g.input("a", DType::f32, Shape(inputs.at("a").shape()));
    const Value spectra = stft(x, {.frame = 400, .hop = 160, .window = hann_window(g, 400), .center = true});
    const Value frames = slice(spectra, 0, 0, spectra.shape()[0].value() - 1);
    g.output("y", log_mel(frames, mel_filters(g, 80, 400, 16000), MelMaximum::clip));
  }
  return g;
}

Graph graph_of(const std::string& lines, const NamedTensors& inputs) {
  if (lines.starts_with("@")) return function_graph(lines, inputs);
  std::string text = "graph g {\n";
  for (const auto& [name, x] : inputs) text += formatted("%{} = input : {}\n", name, x.type_text());
  const bool peaks = lines.contains("%bins =");
  return parse_graph(text + lines +
                     (peaks ? "\noutput bins = %bins\noutput y = %bins:1\n}\n" : "\noutput y = %y\n}\n"));
}

// Relative to the size of the numbers on average: sums go through spectra, where all elements meet.
Tolerance tolerance_for(const Tensor& want) {
  double squares = 0;
  for (const double v : want.doubles()) squares += v * v;
  const auto count = static_cast<double>(std::max<int64_t>(1, want.elements()));
  return {.ulps = 24, .scale = 2 * std::sqrt(squares / count)};
}

void expect_theirs(const Device* device) {
  int cases = 0;
  for (const auto& [name, lines] : fixtures().metadata()) {
    if (name == "made_by" || lines.starts_with("@noise")) continue;
    SCOPED_TRACE(name);
    NamedTensors inputs;
    for (const char* input : {"a", "b", "c"}) {
      if (fixtures().find(name + "." + input)) inputs.emplace(input, fixtures().tensor(name + "." + input));
    }
    const Graph g = graph_of(lines, inputs);
    NamedTensors got;
    if (device) {
      got = compile(g, *device).run(inputs);
    } else {
      for (const auto& [output, value] : run_reference(g, inputs)) got.emplace(output, value.to_tensor());
    }
    const Tensor want = fixtures().tensor(name + ".y");
    Tolerance tolerance = tolerance_for(want);
    // Quiet bins have the errors of loud ones, and logarithms of these.
    if (name == "whisper") tolerance.ulps *= 8;
    EXPECT_TRUE(close(got.at("y"), RefTensor::from(want), tolerance));
    if (lines.contains("%bins =")) {
      EXPECT_EQ(got.at("bins").to_vector<int64_t>(), fixtures().tensor(name + ".bins").to_vector<int64_t>());
    }
    ++cases;
  }
  EXPECT_GE(cases, 40);
}

TEST(Audio, IsSciPysAndPyTorchs) { expect_theirs(&full_device()); }
TEST(Audio, HasTheSameReference) { expect_theirs(nullptr); }

// --- Fourier transforms ---

// The root of the mean of squared errors, relative to that of the bins, in units of f32's precision.
double relative_error(const Tensor& got, const Tensor& want) {
  double errors = 0;
  double squares = 0;
  for (int64_t i = 0; i < want.elements(); ++i) {
    errors += std::pow(got.real(i) - want.real(i), 2);
    squares += std::pow(want.real(i), 2);
  }
  return std::sqrt(errors / squares) / std::numeric_limits<float>::epsilon();
}

TEST(Audio, ErrorsOfTransformsGrowNoFasterThanTheLogarithm) {
  for (const int64_t n : {1 << 4, 1 << 8, 1 << 12, 1 << 16, 1 << 20, 15015, 65537}) {
    const std::string name = formatted("noise_{}", n);
    Graph g;
    const Value x = g.input("x", DType::f32, {n});
    const Value bins = g.constant(fixtures().tensor(name + ".bins"));
    g.output("half", view_as_real(gather(rfft(x), bins)));
    g.output("whole", view_as_real(gather(fft(complex(x, x * 0)), bins)));
    const NamedTensors got = compile(g, full_device()).run({{"x", noise({n})}});
    for (const char* output : {"half", "whole"}) {
      const double error = relative_error(got.at(output), fixtures().tensor(name + ".y"));
      EXPECT_LT(error, 0.2 * std::log2(static_cast<double>(n))) << output << " " << n;
    }
  }
}

TEST(Audio, TransformsHaveMoreRowsThanAGridHasGroups) {
  for (const auto& [dims, axis] :
       {std::pair<std::vector<int64_t>, int64_t>{{70001, 3}, -1}, {{5, 4, 14001}, 1}, {{2, 70001}, 0}}) {
    Graph g;
    const Value z = rfft(g.input("x", DType::f32, Shape(dims)), {.axis = axis});
    const int64_t n = dims[static_cast<size_t>(axis < 0 ? 1 : axis)];
    g.output("spectra", view_as_real(z));
    g.output("back", irfft(z, {.axis = axis, .n = n}));
    const Tensor x = noise(dims);
    const NamedTensors got = compile(g, full_device()).run({{"x", x}});
    std::map<std::string, RefTensor> want = run_reference(g, {{"x", x}});
    EXPECT_TRUE(close(got.at("spectra"), want.at("spectra"), {.ulps = 8, .scale = 2}));
    EXPECT_TRUE(close(got.at("back"), RefTensor::from(x), {.ulps = 8, .scale = 2}));
  }
}

TEST(Audio, FramesGiveTheSignalBackForManyWindows) {
  struct Framing {
    Value (*window)(Graph&, int64_t, bool, DType);
    int64_t frame, hop;
  };
  const auto ones = [](Graph& g, int64_t n, bool, DType dtype) {
    return g.constant(Tensor::full(dtype, {n}, 1));
  };
  for (const Framing& f : {Framing{hann_window, 16, 4},
                           {hann_window, 16, 8},
                           {hamming_window, 17, 6},
                           {blackman_window, 20, 5},
                           {ones, 8, 8},
                           {ones, 13, 3},
                           {hann_window, 512, 128}}) {
    SCOPED_TRACE(formatted("frame {} hop {}", f.frame, f.hop));
    const int64_t samples = 4 * f.frame + 3 * f.hop;
    Graph g;
    StftOptions o{.frame = f.frame, .hop = f.hop, .center = true};
    o.window = f.window(g, f.frame, true, DType::f32);
    g.output("y", istft(stft(g.input("x", DType::f32, {samples}), o), o));
    const Tensor x = noise({samples});
    const Tensor y = compile(g, full_device()).run({{"x", x}}).at("y");
    ASSERT_GT(y.elements(), samples - f.hop - 2);
    const auto both = static_cast<size_t>(std::min(samples, y.elements()));
    EXPECT_TRUE(within(std::span<const double>(y.doubles()).first(both),
                       std::span<const double>(x.doubles()).first(both), 2e-6));
  }
}

TEST(Audio, ErrorsSayWhatIsWrong) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 9});
  const Value z = g.input("z", DType::c64, {3, 9});
  const Value filters = g.input("filters", DType::f32, {4, 7});
  EXPECT_SAYS(psd(x), "the spectra f32[3, 9] must be c64");
  EXPECT_SAYS(psd(z, {.n = 10}), "9 bins are not those of 10 samples");
  EXPECT_SAYS(welch_peaks(z, 0), "0 peaks are wanted");
  EXPECT_SAYS(welch_peaks(slice(z, 0, 0, 0), 1, {.n = 5}), "9 bins are not those of 5 samples");
  EXPECT_SAYS(log_mel(z, filters), "the filters [4, 7] must be for the 9 bins");
  EXPECT_SAYS(log_mel_backward(z, slice(filters, 1, 0, 5), x),
              "[3, 9] must have the dims of the levels, [3, 4]");
  EXPECT_SAYS(mel_filters(g, 0, 400, 16000), "0 filters");
  EXPECT_SAYS(fft_conv(x, z, {.axis = 2}), "there is no axis 2 in [3, 9]");
  EXPECT_SAYS(fft_conv(x, slice(x, 1, 0, 0)), "at least 1");
}

}  // namespace
}  // namespace rlx::testing
