// Spectra on the device against NumPy (tests/fixtures/make_spectra.py), and what samples cannot express.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "base/format.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
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
#include "tests/support/full.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// The numbers that the script's function of this name makes.
Tensor scattered(int64_t n) {
  std::vector<float> x;
  for (int64_t t = 0; t < n; ++t) {
    const uint32_t word = static_cast<uint32_t>(static_cast<uint64_t>(t) * 2654435761U) >> 8;
    x.push_back(static_cast<float>(word) / 4194304.0F - 2.0F);
  }
  return Tensor::of({n}, x);
}

// Functions that texts do not have.
Graph function_graph(const std::string& call, const SafetensorsFile& file, const std::string& name) {
  std::istringstream words(call.substr(1));
  std::string function;
  int64_t n = 0;
  words >> function >> n;
  Graph g;
  Value y;
  if (function == "length") {
    const Value bins = g.constant(file.tensor(name + ".bins"));
    y = view_as_real(gather(fft(g.input("x", DType::f32, {n})), bins));
  } else if (function == "windows") {
    std::vector<Value> rows;
    for (const bool periodic : {false, true}) {
      for (const auto& window : {hann_window, hamming_window, blackman_window})
        rows.push_back(reshape(window(g, n, periodic, DType::f32), {1, n}));
    }
    y = concat(rows, 0);
  } else if (function == "frequencies") {
    y = concat({fftfreq(g, n, 0.25), rfftfreq(g, n, 0.25)}, 0);
  } else {
    const Value x = g.input("x", DType::f32, Shape(file.tensor(name + ".x").shape()));
    y = view_as_real(function == "grid" ? rfftn(x)
                                        : stft(x, {.frame = 16, .hop = 5, .window = hann_window(g, 16)}));
  }
  g.output("y", y);
  return g;
}

Graph text_graph(const std::string& lines, const Tensor& x) {
  return parse_graph(formatted("graph g {{\n%x = input : {}\n{}\noutput y = %y\n}}\n", x.type_text(), lines));
}

// Errors grow with the number of steps, relative to the root of the sum of squares: those of y on average.
Tolerance tolerance_for(const Tensor& want, int64_t n) {
  double squares = 0;
  for (const double v : want.doubles()) squares += v * v;
  const auto count = static_cast<double>(std::max<int64_t>(1, want.elements()));
  return {.ulps = 4 + 2 * std::log2(static_cast<double>(n)), .scale = 2 * std::sqrt(squares / count)};
}

void expect_numpys(const Device* device) {
  const auto file = SafetensorsFile::open(in_source("tests/fixtures/spectra.safetensors"));
  int cases = 0;
  for (const auto& [name, call] : file.metadata()) {
    if (name == "made_by" || (name == "long_1048576" && !full_run())) continue;
    SCOPED_TRACE(name);
    const bool is_long = call.starts_with("@length ");
    NamedTensors inputs;
    if (is_long) inputs.emplace("x", scattered(std::stoll(call.substr(8))));
    if (file.find(name + ".x")) inputs.emplace("x", file.tensor(name + ".x"));
    const Graph g =
        call.starts_with("@") ? function_graph(call, file, name) : text_graph(call, inputs.at("x"));
    const Tensor want = file.tensor(name + ".y");
    const Tensor got =
        device ? compile(g, *device).run(inputs).at("y") : run_reference(g, inputs).at("y").to_tensor();
    const int64_t n = inputs.empty() ? 1 : inputs.at("x").elements();
    Tolerance tolerance = tolerance_for(want, n);
    // A few of its bins have nearly all of the squares, and are not among those that are compared.
    if (is_long) tolerance.scale = 2 * std::sqrt(static_cast<double>(n));
    EXPECT_TRUE(close(got, RefTensor::from(want), tolerance));
    ++cases;
  }
  EXPECT_GE(cases, 60);
}

TEST(Spectra, AreNumPys) { expect_numpys(&full_device()); }
TEST(Spectra, AreNumPysUnderSmallLimits) { expect_numpys(&small_device()); }
TEST(Spectra, HaveTheSameReference) { expect_numpys(nullptr); }

TEST(Spectra, OverlappingFramesGiveTheSignalBack) {
  for (const bool center : {false, true}) {
    Graph g;
    const Value x = g.input("x", DType::f32, {2, 3, 70});
    // Without reflected ends, the first and last samples need a window that is nowhere zero.
    StftOptions options{.frame = 16, .hop = 6, .center = center};
    options.window = center ? hann_window(g, 16) : hamming_window(g, 16);
    g.output("y", istft(stft(x, options), options));
    options.onesided = false;
    g.output("two sided", istft(stft(x, options), options));
    const Tensor signal = Tensor::of({2, 3, 70}, scattered(420).to_vector<float>());
    const NamedTensors got = compile(g, full_device()).run({{"x", signal}});
    for (const char* name : {"y", "two sided"}) {
      const Tensor& y = got.at(name);
      ASSERT_EQ(y.shape()[2], center ? 66 : 70);
      for (int64_t row = 0; row < 6; ++row) {
        for (int64_t i = 0; i < y.shape()[2]; ++i)
          EXPECT_NEAR(y.real(row * y.shape()[2] + i), signal.real(70 * row + i), 1e-5) << name << row << i;
      }
    }
  }
}

// The first sample of each window is 0, and without reflected ends no other frame reaches the first of all.
TEST(Spectra, SamplesThatNoWindowReachesAreZero) {
  for (const auto& window : {hann_window, blackman_window}) {
    Graph g;
    StftOptions options{.frame = 16, .hop = 4, .window = window(g, 16, true, DType::f32)};
    g.output("y", istft(stft(g.input("x", DType::f32, {64}), options), options));
    const Tensor signal = scattered(64);
    const Tensor y = compile(g, full_device()).run({{"x", signal}}).at("y");
    EXPECT_TRUE(close(y, run_reference(g, {{"x", signal}}).at("y"), {.ulps = 200, .scale = 2}));
    EXPECT_EQ(y.real(0), 0);
    // The second one is known by the square of a small weight, 0.04 or less.
    for (int64_t i = 2; i < 62; ++i) EXPECT_NEAR(y.real(i), signal.real(i), 2e-5) << i;
  }
}

// docs/arithmetic.md: the root of the mean square of the error, against that of the results, is below
// 0.1 + 0.3 log2(n) units of 2^-23, with 0.2 for powers of two. Primes of up to 61 have the largest: they are
// sums of so many products.
TEST(Spectra, ErrorsAreBelowTheStatedBound) {
  std::vector<int64_t> lengths = {19,  32,  37,   47,   59,   61,   64,    67,   100,
                                  128, 257, 1000, 1024, 3721, 4096, 10007, 65536};
  for (int64_t n = 1; n <= 17; ++n) lengths.push_back(n);
  if (full_run()) lengths.insert(lengths.end(), {1 << 20, 1000003, 226981});
  std::mt19937 random(5);
  for (const int64_t n : lengths) {
    const int64_t rows = std::clamp<int64_t>(16384 / n, 1, 400);
    Graph g;
    const Value x = g.input("x", DType::f32, {rows, n, 2});
    g.output("complex", view_as_real(fft(view_as_complex(x))));
    g.output("inverse", view_as_real(ifft(view_as_complex(x))));
    g.output("half", view_as_real(rfft(reshape(slice(x, 2, 0, 1), {rows, n}))));
    const NamedTensors inputs = {{"x", random_tensor(DType::f32, {rows, n, 2}, -1, 1, random)}};
    const NamedTensors got = compile(g, full_device()).run(inputs);
    const auto want = run_reference(g, inputs);
    for (const char* name : {"complex", "inverse", "half"}) {
      double errors = 0, squares = 0;
      for (int64_t i = 0; i < got.at(name).elements(); ++i) {
        const double exact = want.at(name).real[static_cast<size_t>(i)];
        errors += std::pow(got.at(name).real(i) - exact, 2);
        squares += exact * exact;
      }
      const double units = std::sqrt(errors / squares) * 0x1p23;
      const double slope = std::has_single_bit(static_cast<uint64_t>(n)) ? 0.2 : 0.3;
      EXPECT_LT(units, 0.1 + slope * std::log2(static_cast<double>(n))) << name << " " << n;
    }
  }
}

TEST(Spectra, AnAxisOfFftMayBeASymbol) {
  Graph g;
  g.output("y", view_as_real(ifft(fft(g.input("x", DType::f32, {2, Dim("n")})))));
  Executable exe = compile(g, full_device());
  for (const int64_t n : {5, 8}) {
    const Tensor x = Tensor::of({2, n}, scattered(2 * n).to_vector<float>());
    const Tensor y = exe.run({{"x", x}}).at("y");
    for (int64_t i = 0; i < 2 * n; ++i) EXPECT_NEAR(y.real(2 * i), x.real(i), 1e-5) << n << " " << i;
  }
}

TEST(Spectra, NanReachesEveryBinOfItsRowOnly) {
  for (const int64_t n : {8, 257, 4096}) {
    std::vector<float> x(static_cast<size_t>(3 * n), 1);
    x[static_cast<size_t>(n + 2)] = std::numeric_limits<float>::quiet_NaN();
    Graph g;
    g.output("y", view_as_real(fft(g.input("x", DType::f32, {3, n}))));
    const Tensor y = compile(g, full_device()).run({{"x", Tensor::of({3, n}, x)}}).at("y");
    for (int64_t i = 0; i < y.elements(); ++i)
      EXPECT_EQ(std::isnan(y.real(i)), i / (2 * n) == 1) << n << " " << i;
  }
}

TEST(Spectra, ComplexNumbersAreTheirParts) {
  Graph g;
  const Value re = g.input("re", DType::f32, {2, 3});
  const Value im = g.input("im", DType::f32, {2, 3});
  const Value z = complex(re, im);
  g.output("re", real(transpose(z)));
  g.output("im", imag(conj(z)));
  const Tensor a = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = Tensor::of<float>({2, 3}, {7, 8, 9, 10, 11, 12});
  const NamedTensors y = compile(g, full_device()).run({{"re", a}, {"im", b}});
  EXPECT_EQ(y.at("re").to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(y.at("im").to_vector<float>(), (std::vector<float>{-7, -8, -9, -10, -11, -12}));
}

TEST(Spectra, ErrorsSayWhatIsWrong) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 0});
  EXPECT_SAYS(fft(x), "0 elements of [3, 0]");
  EXPECT_SAYS(irfft(x), "c64");
  EXPECT_SAYS(view_as_complex(x), "[3, 0]");
  EXPECT_SAYS(unfold(x, -1, 4, 1), "windows of 4 elements");
  EXPECT_SAYS(stft(x, StftOptions()), "frames have 0 elements");
  const Value z = g.input("z", DType::c64, {2, 8});
  EXPECT_SAYS(rfft(z), "x is c64[2, 8]; use fft");
  EXPECT_SAYS(rfftn(z), "use fft");
  EXPECT_SAYS(stft(z, {.frame = 4}), "onesided must be false");
  EXPECT_EQ(stft(z, {.frame = 4, .onesided = false}).shape(), (Shape{2, 5, 4}));
  EXPECT_SAYS(irfft(g.input("none", DType::c64, {2, 0})), "axis 1 of [2, 0] has no bins");
  EXPECT_SAYS(irfft(g.input("one", DType::c64, {2, 1})), "axis 1 of [2, 1] has 1 bin");
  const Value s = g.input("s", DType::f32, {3, 8});
  EXPECT_SAYS(stft(s, {.frame = 9}),
              "stft: the signal [3, 8] has 8 samples, fewer than a frame, which has 9");
  EXPECT_SAYS(stft(s, {.frame = 16, .center = true}), "half of a frame of 16 it needs at least 9");
  EXPECT_EQ(stft(s, {.frame = 15, .center = true}).shape(), (Shape{3, 3, 8}));
  EXPECT_SAYS(stft(g.input("long", DType::f32, {Dim("n")}), {.frame = 4}),
              "a known number of samples, not n");
}

}  // namespace
}  // namespace rlx::testing
