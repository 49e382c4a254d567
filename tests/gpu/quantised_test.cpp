// Packed weights, products of bytes and fake quantisation against NumPy and PyTorch
// (tests/fixtures/make_quantised.py), and what samples cannot express: NaN, memory, states, wrong uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/candidate.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/report.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/fixture_cases.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// --- NumPy and PyTorch ---

// Sums of products differ by roundings of their terms, which are at most of the size of the largest result.
void expect_close(const Tensor& got, const Tensor& want) {
  if (!is_float(got.dtype())) {
    EXPECT_EQ(got.integers(), want.integers());
    return;
  }
  EXPECT_TRUE(
      close(got, RefTensor::from(want), {.ulps = 8, .terms = 16, .scale = largest_size(want.doubles())}));
}

void expect_theirs(const Device* device) {
  const std::vector<FixtureCase> cases = fixture_cases("quantised");
  EXPECT_GT(cases.size(), 20u);
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name + ": " + c.call);
    const NamedTensors got = run_or_reference(c.graph, c.inputs, device);
    for (size_t i = 0; i < c.results.size(); ++i) expect_close(got.at(formatted("y{}", i)), c.results[i]);
  }
}

TEST(Quantised, AreNumPysAndPyTorchs) { expect_theirs(&full_device()); }
TEST(Quantised, AreNumPysAndPyTorchsUnderSmallLimits) { expect_theirs(&small_device()); }
TEST(Quantised, HaveTheSameReference) { expect_theirs(nullptr); }

// --- Packed weights ---

// x times int4 codes in blocks of 32 with scales, as params.
struct Packed {
  Graph graph;
  int64_t k, n;
  Value y;

  Packed(int64_t m, int64_t k, int64_t n) : k(k), n(n) {
    const Value x = graph.input("x", DType::f32, {m, k});
    PackedWeight w{.codes = graph.param("codes", DType::u8, {k * n / 2}),
                   .scale = graph.param("scale", DType::f32, {k / 32, n})};
    w.scheme = WeightScheme::int4;
    w.columns = n;
    w.block = 32;
    y = dequant_matmul(x, w);
  }
};

TEST(PackedWeights, StayPackedAndTakeAnEpilogue) {
  Packed p(3, 256, 64);
  const Value bias = p.graph.param("bias", DType::f32, {p.n});
  p.graph.output("y", relu(p.y + bias));
  Executable exe = compile(p.graph, full_device());
  std::mt19937 random(1);
  const NamedTensors params = {{"codes", random_tensor(DType::u8, {p.k * p.n / 2}, 0, 255, random)},
                               {"scale", random_tensor(DType::f32, {p.k / 32, p.n}, -0.1, 0.1, random)},
                               {"bias", random_tensor(DType::f32, {p.n}, -1, 1, random)}};
  exe.set_params(params);
  const Tensor x = random_tensor(DType::f32, {3, p.k}, -1, 1, random);
  NamedTensors leaves = params;
  leaves["x"] = x;
  EXPECT_TRUE(close(exe.run({{"x", x}}).at("y"), run_reference(p.graph, leaves).at("y"),
                    {.ulps = 8, .terms = 256, .scale = 16}));
  const PlanReport report = exe.plan_report();
  EXPECT_EQ(report.run.size(), 1u) << exe.plan_text();
  EXPECT_TRUE(report.load.empty());
  EXPECT_EQ(report.memory.derived_bytes, 0);
  const int64_t bytes = p.k * p.n / 2 + p.k / 32 * p.n * 4 + p.n * 4;
  EXPECT_LT(report.memory.weight_bytes, bytes + 1024);
}

// Bytes by rows are put along k once, when they are loaded; those of an odd k stay as they are.
TEST(PackedWeights, BytesArePutAlongK) {
  std::mt19937 random(3);
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{96, 20}, {33, 20}, {64, 1}}) {
    Graph g;
    PackedWeight w{.codes = g.param("codes", DType::i8, {k, n}),
                   .scale = g.param("scale", DType::f32, {(k + 31) / 32, n})};
    w.columns = n;
    w.block = 32;
    g.output("y", dequant_matmul(g.input("x", DType::f32, {3, k}), w));
    NamedTensors leaves = {{"codes", random_tensor(DType::i8, {k, n}, -128, 127, random)},
                           {"scale", random_tensor(DType::f32, {(k + 31) / 32, n}, -0.02, 0.02, random)}};
    for (const Device* device : {&full_device(), &small_device()}) {
      Executable exe = compile(g, *device);
      exe.set_params(leaves);
      const Tensor x = random_tensor(DType::f32, {3, k}, -1, 1, random);
      NamedTensors all = leaves;
      all["x"] = x;
      EXPECT_TRUE(close(exe.run({{"x", x}}).at("y"), run_reference(g, all).at("y"),
                        {.ulps = 8, .terms = static_cast<double>(k), .scale = 8}));
      EXPECT_EQ(exe.plan_report().run.size(), 1u);
      EXPECT_EQ(exe.plan_report().load.size(), k % 4 == 0 && n > 1 ? 1u : 0u) << k << " " << n;
    }
  }
}

TEST(PackedWeights, AScaleThatIsNaNSpreadsInItsColumn) {
  Packed p(2, 64, 12);
  p.graph.output("y", p.y);
  Executable exe = compile(p.graph, full_device());
  std::vector<double> scale(2 * 12, 0.5);
  scale[12 + 7] = std::nan("");
  exe.set_param("codes", Tensor::full(DType::u8, {64 * 12 / 2}, 0x11));
  exe.set_param("scale", Tensor::from_doubles(DType::f32, {2, 12}, scale));
  const Tensor y = exe.run({{"x", Tensor::full(DType::f32, {2, 64}, 1)}}).at("y");
  for (int64_t i = 0; i < y.elements(); ++i) {
    if (i % 12 == 7)
      EXPECT_TRUE(std::isnan(y.real(i))) << i;
    else
      EXPECT_EQ(y.real(i), 32) << i;
  }
}

// All codes, with x a row of the identity for each: the elements themselves, infinities and NaN too.
TEST(PackedWeights, EveryCodeOfTheSmallFloats) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  for (const bool e5m2 : {false, true}) {
    Graph g;
    PackedWeight w{.codes = g.constant(Tensor::of({1, 256}, codes))};
    w.scheme = e5m2 ? WeightScheme::fp8_e5m2 : WeightScheme::fp8_e4m3;
    w.columns = 256;
    g.output("y", dequant_matmul(g.input("x", DType::f32, {1, 1}), w));
    const Tensor y = compile(g, full_device()).run({{"x", Tensor::full(DType::f32, {1, 1}, 1)}}).at("y");
    for (int i = 0; i < 256; ++i) {
      const int bits = e5m2 ? 2 : 3;
      const int magnitude = i & 127;
      const int mantissa = magnitude & ((1 << bits) - 1);
      const int exponent = magnitude >> bits;
      double want = std::ldexp(exponent == 0 ? mantissa : mantissa + (1 << bits),
                               std::max(exponent, 1) - (e5m2 ? 15 : 7) - bits);
      if (e5m2 && exponent == 31) want = mantissa == 0 ? INFINITY : NAN;
      if (!e5m2 && magnitude == 127) want = NAN;
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(y.real(i))) << i;
      else
        EXPECT_EQ(y.real(i), i < 128 ? want : -want) << i;
    }
  }
}

TEST(PackedWeights, MisuseIsAnErrorThatNamesTheNumbers) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 40});
  const auto weight = [&](std::vector<int64_t> codes, std::vector<int64_t> scale, WeightScheme scheme,
                          int64_t block) {
    PackedWeight w{.codes = g.constant(Tensor::zeros(DType::u8, std::move(codes)))};
    if (!scale.empty()) w.scale = g.constant(Tensor::zeros(DType::f32, std::move(scale)));
    w.scheme = scheme;
    w.columns = 6;
    w.block = block;
    return w;
  };
  using enum WeightScheme;
  EXPECT_SAYS(dequant_matmul(x, weight({100}, {2, 6}, int4, 32)),
              "the codes [100] are not the 120 bytes of 6 columns of 40 elements of 4 bits");
  EXPECT_SAYS(
      dequant_matmul(x, weight({40, 6}, {3, 6}, int8, 32)),
      "scale has the shape [3, 6]; 6 columns of 40 elements in blocks of 32 need [2, 6] or one number");
  EXPECT_SAYS(dequant_matmul(x, weight({40, 6}, {}, int8, 32)), "there are no scales");
  EXPECT_SAYS(dequant_matmul(x, weight({40, 3}, {2, 6}, mxfp4, 0)), "u8");
  PackedWeight w = weight({40, 6}, {2, 6}, fp8_e4m3, 32);
  w.zero_point = w.scale;
  EXPECT_SAYS(dequant_matmul(x, w), "only integers have zero points");
  w = weight({120}, {6}, uint4, 0);
  w.order = WeightOrder::by_columns;
  EXPECT_SAYS(dequant_matmul(g.input("odd", DType::f32, {1, 7}), w),
              "a column of 7 codes of 4 bits is no whole number of bytes");
}

// --- Products of bytes ---

// Four at a time, with and without signs, in every part of a tile, cut by limits, and with what follows.
TEST(Bytes, AreMultipliedFourAtATime) {
  std::mt19937 random(4);
  for (const DType type : {DType::i8, DType::u8}) {
    const double low = type == DType::i8 ? -128 : 0;
    const double high = type == DType::i8 ? 127 : 255;
    for (const auto& [m, k, n] :
         {std::array<int64_t, 3>{1, 1024, 64}, {5, 36, 19}, {70, 260, 67}, {2, 4, 3}}) {
      SCOPED_TRACE(formatted("{} {} x {} x {}", to_string(type), m, k, n));
      Graph g;
      const Value x = g.input("x", type, {m, k});
      const Value w = g.param("w", type, {k, n});
      g.output("y", matmul(x, w));
      g.output("scaled", cast(matmul(x, w), DType::f32) * 0.5);
      const NamedTensors leaves = {{"x", random_tensor(type, {m, k}, low, high, random)},
                                   {"w", random_tensor(type, {k, n}, low, high, random)}};
      const auto want = run_reference(g, leaves);
      for (const Device* device : {&full_device(), &small_device()}) {
        Executable exe = compile(g, *device, {.kernels = {{"matmul", "dot4"}}});
        exe.set_param("w", leaves.at("w"));
        const NamedTensors got = exe.run({{"x", leaves.at("x")}});
        EXPECT_TRUE(close(got.at("y"), want.at("y"), {.ulps = 0}));
        EXPECT_TRUE(close(got.at("scaled"), want.at("scaled"), {.ulps = 1}));
        EXPECT_TRUE(std::ranges::any_of(exe.plan_report().run, [](const StepReport& s) {
          return has_words(s.variant, "dot4");
        })) << exe.plan_text();
      }
    }
  }
}

// --- ONNX ---

// A MatMulNBits of [n, k] weights with zero points.
OnnxModel packed_model(const OnnxGraph::Dim& rows, int64_t k, int64_t n, int bits,
                       const std::string& groups = "") {
  std::mt19937 random(7);
  const int64_t blocks = k / 32;
  OnnxModel model;
  model.import("com.microsoft", 1);
  model.graph.input("x", {rows, k})
      .initializer("codes", random_tensor(DType::u8, {n, blocks, 4 * bits}, 0, 255, random))
      .initializer("scales", random_tensor(DType::f32, {n, blocks}, -0.1, 0.1, random))
      .initializer("zeros", random_tensor(DType::u8, {n, blocks * bits / 8}, 0, 255, random))
      .initializer("groups", Tensor::zeros(DType::i32, {k}))
      .node("MatMulNBits", {"x", "codes", "scales", "zeros", groups}, {"y"},
            {{"K", static_cast<int>(k)}, {"N", static_cast<int>(n)}, {"bits", bits}, {"block_size", 32}},
            "com.microsoft")
      .output("y");
  return model;
}

int64_t memory_of_weights(Executable& exe) {
  const PlanReport report = exe.plan_report({{"rows", 3}});
  return report.memory.weight_bytes + report.memory.derived_bytes;
}

TEST(QuantisedOnnx, PackedWeightsStayPacked) {
  const int64_t k = 1024;
  const int64_t n = 256;
  const onnx::Model model = onnx::parse(packed_model("rows", k, n, 4).bytes());
  Executable exe = compile(model.graph, full_device());
  exe.set_params(model.weights);
  for (const int64_t rows : {1, 3}) {
    const NamedTensors in = {{"x", Tensor::full(DType::f32, {rows, k}, 0.5)}};
    NamedTensors leaves(model.weights.begin(), model.weights.end());
    leaves.insert(in.begin(), in.end());
    const onnx::Model bound = onnx::parse(packed_model(rows, k, n, 4).bytes());
    EXPECT_TRUE(close(exe.run(in).at("y"), run_reference(bound.graph, leaves).at("y"),
                      {.ulps = 8, .terms = static_cast<double>(k), .scale = 32}));
  }
  // Codes, scales and, one by one, zero points.
  EXPECT_LT(memory_of_weights(exe), n * k / 2 + 4 * n * k / 32 + n * k / 32 + 2048);
}

TEST(QuantisedOnnx, WhatIsNotSupportedIsRefused) {
  EXPECT_SAYS(onnx::parse(packed_model(1, 64, 8, 3).bytes()), "3 bits are not supported, only 2, 4 and 8");
  EXPECT_SAYS(onnx::parse(packed_model(1, 64, 8, 4, "groups").bytes()),
              "g_idx is not supported unless it counts the blocks");
}

// Bytes with a zero point, not 32-bit integers.
TEST(QuantisedOnnx, WeightsOfIntegersStayBytes) {
  const int64_t k = 512;
  const int64_t n = 256;
  std::mt19937 random(8);
  OnnxModel model;
  model.graph.input("x", {"rows", k}, ElementType::uint8)
      .initializer("w", random_tensor(DType::i8, {k, n}, -128, 127, random))
      .initializer("x_zero", Tensor::scalar<uint8_t>(131))
      .initializer("w_zero", Tensor::scalar<int8_t>(3))
      .node("MatMulInteger", {"x", "w", "x_zero", "w_zero"}, {"y"})
      .output("y", ElementType::int32);
  const onnx::Model loaded = onnx::parse(model.bytes());
  Executable exe = compile(loaded.graph, full_device());
  exe.set_params(loaded.weights);
  const Tensor x = random_tensor(DType::u8, {5, k}, 0, 255, random);
  const Tensor& w = loaded.weights.at("w");
  const Tensor y = exe.run({{"x", x}}).at("y");
  for (int64_t i = 0; i < y.elements(); ++i) {
    int64_t sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += (x.integer(i / n * k + p) - 131) * (w.integer(p * n + i % n) - 3);
    ASSERT_EQ(y.integer(i), sum) << i;
  }
  EXPECT_LT(memory_of_weights(exe), k * n + 4 * n + 4096);
}

// --- The rest ---

// Powers of two: the next above, the next below, and the nearest.
TEST(RoundToFormat, GivesPowersOfTwo) {
  struct Row {
    float x;
    double up, down, nearest;
  };
  const double least = std::ldexp(1, -127);
  const double most = std::ldexp(1, 127);
  const Row rows[] = {
      {1, 1, 1, 1},  {1.1f, 2, 1, 1},         {1.5f, 2, 1, 2},           {1.4999999f, 2, 1, 1},
      {-3, 4, 2, 4}, {0.3f, 0.5, 0.25, 0.25}, {3e38f, most, most, most}, {0, least, least, least}};
  std::vector<float> x;
  for (const Row& r : rows) x.push_back(r.x);
  x.push_back(INFINITY);
  const auto n = std::ssize(x);
  Graph g;
  const Value in = g.input("x", DType::f32, {n});
  for (const int format : {5, 6, 7}) {
    g.output(formatted("y{}", format), round_to_format(in, format, 1));
    g.output(formatted("z{}", format), round_to_format(in, format, 0));
  }
  const NamedTensors out = compile(g, full_device()).run({{"x", Tensor::of({n}, x)}});
  for (int64_t i = 0; i + 1 < n; ++i) {
    EXPECT_EQ(out.at("y5").real(i), rows[i].up) << rows[i].x;
    EXPECT_EQ(out.at("y6").real(i), rows[i].down) << rows[i].x;
    EXPECT_EQ(out.at("y7").real(i), rows[i].nearest) << rows[i].x;
  }
  EXPECT_TRUE(std::isnan(out.at("z5").real(6)));  // above the largest
  for (const auto& [name, y] : out) EXPECT_TRUE(std::isnan(y.real(n - 1))) << name;
}

TEST(Quantised, TiesGoAwayFromZero) {
  Graph g;
  const Value x = g.input("x", DType::f32, {12});
  g.output("y", round_div_away(x, 1));
  g.output("q", quantize(x, g.scalar(DType::f32, 1), {}, {.ties = Ties::away}));
  const Tensor in = Tensor::of<float>({12}, {0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 0.49999997f, 8388607.5f,
                                             -8388608, 1e30f, INFINITY, -INFINITY, NAN});
  const NamedTensors out = compile(g, full_device()).run({{"x", in}});
  for (int64_t i = 0; i < 11; ++i) EXPECT_EQ(out.at("y").real(i), std::round(in.real(i))) << in.real(i);
  EXPECT_TRUE(std::isnan(out.at("y").real(11)));
  EXPECT_EQ(out.at("q").integers(), (std::vector<int64_t>{1, -1, 2, 3, -3, 0, 127, -128, 127, 127, -128, 0}));
}

// A moving average that a state keeps from run to run.
TEST(Quantised, AStateKeepsTheMovingAverage) {
  Graph g;
  const Value x = g.input("x", DType::f32, {4});
  const Value state = g.state("s", DType::f32, {1});
  const FakeQuantized made = fake_quantize(x, state, {.mode = ScaleMode::moving_average, .decay = 0.5});
  g.output("y", made.y);
  g.output("s", write_state(state, reshape(made.scale, {1}), 0, 0));
  Executable exe = compile(g, full_device());
  EXPECT_EQ(exe.run({{"x", Tensor::of<float>({4}, {127, 1.25f, 0, -3.5f})}}).at("y").doubles(),
            (std::vector<double>{127, 1, 0, -4}));
  const NamedTensors second = exe.run({{"x", Tensor::of<float>({4}, {-381, 1.25f, 0, -3.5f})}});
  EXPECT_EQ(second.at("s").real(0), 2);  // between 1 and 3
  EXPECT_EQ(second.at("y").doubles(), (std::vector<double>{-254, 2, 0, -4}));
}

TEST(Quantised, WrongUsesAreErrors) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 4});
  const Value s = g.input("s", DType::f32, {3});
  EXPECT_SAYS(fake_quantize(x, {}, {.bits = 5}), "fake_quantize: 5 bits; there must be 2, 4 or 8");
  EXPECT_SAYS(fake_quantize(x, s), "a state is given for moving_average and fixed");
  EXPECT_SAYS(fake_quantize(x, {}, {.axis = 2}), "x [3, 4] has no axis 2");
  EXPECT_SAYS(fake_quantize_lsq(x, s, 8, 1), "the scales have the shape [3]; they must be [4]");
  EXPECT_SAYS(q_matmul(x, x), "q_matmul: x, w and the result must be i8 or u8, not f32");
}

TEST(Quantised, TensorsAreEncoded) {
  std::mt19937 random(2);
  const Tensor t = random_tensor(DType::f16, {2, 64}, -1, 1, random);
  const Tensor encoded = rlx::quantize(t, DType::q8_0);
  EXPECT_EQ(encoded.type_text(), "q8_0[2, 64]");
  for (int64_t i = 0; i < t.elements(); ++i) EXPECT_NEAR(encoded.real(i), t.real(i), 1.0 / 127);
  EXPECT_SAYS(rlx::quantize(t, DType::f32), "quantize: f32 is no encoding");
  EXPECT_SAYS(rlx::quantize(t, DType::q4_k), "must be a multiple of 256");
}

}  // namespace
}  // namespace rlx::testing
