// Quantisation on the device, and products of integers with what follows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/candidate.h"
#include "ops/quantization/byte_product.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/report.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

// Every float of 8 or 4 bits is its own nearest, and halfway between two of them the one with an even last
// bit is taken. Widths and limits are those of the formats' definitions (OCP and Graphcore's papers).
TEST(RoundToFormat, GivesTheNearestNumberOfEveryFormat) {
  struct Format {
    int number, mantissa_bits, low;  // exponent of the least normal number
    double largest;
  };
  for (const Format& f : {Format{0, 3, -6, 448}, Format{1, 3, -7, 240}, Format{2, 2, -14, 57344},
                          Format{3, 2, -15, 57344}, Format{4, 1, 0, 6}}) {
    std::vector<double> grid = {0};  // all magnitudes, ascending
    for (int m = 1; m < 1 << f.mantissa_bits; ++m) grid.push_back(std::ldexp(m, f.low - f.mantissa_bits));
    for (int e = f.low; grid.back() < f.largest; ++e) {
      for (int m = 0; m < 1 << f.mantissa_bits && grid.back() < f.largest; ++m)
        grid.push_back(std::ldexp((1 << f.mantissa_bits) + m, e - f.mantissa_bits));
    }
    ASSERT_EQ(grid.back(), f.largest);
    std::vector<float> x;
    std::vector<double> want;
    const auto add = [&](double value, double nearest) {
      for (const double sign : {1.0, -1.0}) {
        x.push_back(static_cast<float>(sign * value));
        want.push_back(sign * nearest);
      }
    };
    for (size_t i = 0; i < grid.size(); ++i) {
      add(grid[i], grid[i]);
      if (i + 1 == grid.size()) break;
      const double middle = (grid[i] + grid[i + 1]) / 2;
      add(middle, grid[i % 2 == 0 ? i : i + 1]);  // the mantissas of neighbours count up from 0
      add(std::nextafter(static_cast<float>(middle), 0.0f), grid[i]);
      add(std::nextafter(static_cast<float>(middle), 1e9f), grid[i + 1]);
    }
    add(1e6 * f.largest, f.largest);
    add(INFINITY, f.largest);
    add(1e-30, 0);
    const auto n = std::ssize(x);
    Graph g;
    const Value in = g.input("x", DType::f32, {n});
    g.output("y", round_to_format(in, f.number, 1));
    g.output("z", round_to_format(in, f.number, 0));
    const NamedTensors out = rlx::compile(g, full_device()).run({{"x", Tensor::of({n}, x)}});
    EXPECT_EQ(out.at("y").doubles(), want) << f.number;
    const double beyond = out.at("z").real(n - 4);  // of infinity
    EXPECT_TRUE(f.number == 2   ? beyond == INFINITY
                : f.number == 4 ? beyond == f.largest
                                : std::isnan(beyond))
        << f.number << ": " << beyond;
  }
}

TEST(Quantize, RoundsTiesToEvenAndSaturates) {
  Graph g;
  const Value x = g.input("x", DType::f32, {9});
  g.output("y", quantize(x, g.scalar(DType::f32, 0.1), g.scalar(DType::u8, 3), {.to = DType::u8}));
  const Tensor in =
      Tensor::of<float>({9}, {0.05f, 0.15f, 0.25f, -0.3f, -0.31f, 25.2f, 1e30f, -INFINITY, NAN});
  // 0.05f / 0.1f is 0.5 in f32, and so on: NumPy's numpy.rint(x / numpy.float32(0.1)) + 3.
  EXPECT_EQ(rlx::compile(g, full_device()).run({{"x", in}}).at("y").integers(),
            (std::vector<int64_t>{3, 5, 5, 0, 0, 255, 255, 0, 0}));
}

// What follows a product of integers is computed with it.
TEST(Quantize, ANaNAnywhereIsInTheScale) {
  for (const int64_t n : {1, 7, 70001}) {
    Graph g;
    const auto [scale, zero] = dynamic_scale(g.input("x", DType::f32, {n}));
    g.output("scale", scale);
    g.output("zero", zero);
    Executable exe = rlx::compile(g, full_device());
    for (const int64_t at : {int64_t{-1}, int64_t{0}, n / 2, n - 1}) {
      std::vector<float> x(static_cast<size_t>(n), -51);
      if (at >= 0) x[static_cast<size_t>(at)] = NAN;
      const NamedTensors out = exe.run({{"x", Tensor::of({n}, x)}});
      const double found = out.at("scale").real(0);
      if (at >= 0) {
        EXPECT_TRUE(std::isnan(found)) << at << " of " << n;
      } else {
        EXPECT_NEAR(found, 0.2, 1e-7) << n;
      }
      EXPECT_EQ(out.at("zero").integer(0), at >= 0 ? 0 : 255);
    }
  }
}

// One that finds the range and quantises, and the product with its scales, zero points and bias.
TEST(Quantize, ADynamicallyQuantisedLayerIsTwoDispatches) {
  Graph g;
  const Value x = g.input("x", DType::f32, {5, 36});
  const Value w = g.param("w", DType::i8, {36, 12});
  const auto [bytes, scale, zero] = dynamic_quantize(x);
  const Value sums = byte_product(bytes, cast(zero, DType::i32), w, {});
  g.output("y", cast(sums, DType::f32) * (scale * g.param("w_scale", DType::f32, {})) +
                    g.param("b", DType::f32, {12}));
  Executable exe = rlx::compile(g, full_device());
  EXPECT_EQ(exe.dispatch_count(), 2);
  std::vector<int64_t> bytes_of_weight;
  for (int64_t i = 0; i < 36 * 12; ++i) bytes_of_weight.push_back(i * 37 % 255 - 127);
  NamedTensors leaves = {
      {"w", Tensor::from_ints(DType::i8, {36, 12}, bytes_of_weight)},
      {"w_scale", Tensor::of({}, {0.01F})},
      {"b", Tensor::full(DType::f32, {12}, 3)},
  };
  std::vector<double> values;
  for (int i = 0; i < 180; ++i) values.push_back(std::sin(i) + 0.3);
  leaves["x"] = Tensor::from_doubles(DType::f32, {5, 36}, values);
  for (const char* name : {"w", "w_scale", "b"}) exe.set_param(name, leaves.at(name));
  EXPECT_TRUE(within(exe.run({{"x", leaves.at("x")}}).at("y").doubles(),
                     run_reference(g, leaves).at("y").real, 1e-5));
}

TEST(Quantize, AProductOfBytesAndItsScaleAreOneDispatch) {
  Graph g;
  const Value a = g.input("a", DType::u8, {17, 33});
  const Value b = g.input("b", DType::i8, {33, 9});
  const Value scale = g.input("scale", DType::f32, {9});
  g.output("y", cast(matmul(a, b), DType::f32) * scale);
  std::vector<uint8_t> as(17 * 33);
  std::vector<int8_t> bs(33 * 9);
  for (size_t i = 0; i < as.size(); ++i) as[i] = static_cast<uint8_t>(i * 37);
  for (size_t i = 0; i < bs.size(); ++i) bs[i] = static_cast<int8_t>(i * 91);
  std::vector<float> scales(9);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.25f * static_cast<float>(i + 1);
  Executable exe = rlx::compile(g, full_device());
  const Tensor y = exe.run({{"a", Tensor::of({17, 33}, as)},
                            {"b", Tensor::of({33, 9}, bs)},
                            {"scale", Tensor::of({9}, scales)}})
                       .at("y");
  EXPECT_EQ(exe.dispatch_count(), 1) << exe.plan_text();
  for (int64_t i = 0; i < 17; ++i) {
    for (int64_t j = 0; j < 9; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < 33; ++k)
        sum += int64_t{as[static_cast<size_t>(i * 33 + k)]} * bs[static_cast<size_t>(k * 9 + j)];
      EXPECT_EQ(y.real(i * 9 + j), static_cast<double>(sum) * scales[static_cast<size_t>(j)]);
    }
  }
}

// Quotients at, next to and around every half, for scales of all kinds: what C++ makes of float(x / scale).
TEST(Quantize, RoundsLikeADivisionThatIsRoundedItself) {
  const std::vector<float> scales = {0.1F,     0.0235294122F, 1.0F / 3, 1.5F,  0.00784313772F,
                                     16777213, -0.7F,         3e-12F,   7e20F, 0.999999940F};
  std::vector<float> x, scale;
  for (const float s : scales) {
    for (int k = -330; k <= 330; ++k) {
      const auto half = static_cast<float>((k + 0.5) * static_cast<double>(s));
      for (float v : {half, static_cast<float>(k * static_cast<double>(s))}) {
        for (int i = 0; i < 4; ++i) v = std::nextafter(v, -INFINITY);
        for (int i = 0; i < 9; ++i, v = std::nextafter(v, INFINITY)) {
          x.push_back(v);
          scale.push_back(s);
        }
      }
    }
    for (const float v : {0.0F, -0.0F, 1e38F, -1e38F, INFINITY, -INFINITY, NAN, 1e-30F}) {
      x.push_back(v);
      scale.push_back(s);
    }
  }
  for (const float s : {0.0F, -0.0F, INFINITY, NAN}) {
    for (const float v : {0.0F, 2.0F, -2.0F, INFINITY, NAN}) {
      x.push_back(v);
      scale.push_back(s);
    }
  }
  while (x.size() % 4 != 0) {
    x.push_back(1);
    scale.push_back(1);
  }
  const auto n = std::ssize(x);
  Graph g;
  const Value in = g.input("x", DType::f32, {n});
  const Value by = g.input("scale", DType::f32, {n});
  g.output("u", cast(round_to_u8(in, by, 7), DType::u8));
  g.output("i", cast(round_to_i8(in, by, -3), DType::i8));
  const NamedTensors out =
      rlx::compile(g, full_device()).run({{"x", Tensor::of({n}, x)}, {"scale", Tensor::of({n}, scale)}});
  const std::vector<int64_t> u = out.at("u").integers();
  const std::vector<int64_t> i8 = out.at("i").integers();
  int wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double q = std::nearbyint(static_cast<double>(x[i] / scale[i]));
    const int64_t want_u = std::isnan(q) ? 0 : static_cast<int64_t>(std::clamp(q + 7, 0.0, 255.0));
    const int64_t want_i = std::isnan(q) ? 0 : static_cast<int64_t>(std::clamp(q - 3, -128.0, 127.0));
    if (u[i] == want_u && i8[i] == want_i) continue;
    if (++wrong < 9) ADD_FAILURE() << x[i] << " / " << scale[i] << ": " << u[i] << ", " << i8[i];
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Quantize, FloatsBecomeBytesByTruncation) {
  std::vector<float> x = {NAN,     INFINITY, -INFINITY, 1e30F, -1e30F, -0.0F,
                          127.99F, -128.99F, 255.99F,   256,   -0.99F, 0.99F};
  for (int i = -600; i < 600; ++i) x.push_back(static_cast<float>(i) / 4);
  const auto n = std::ssize(x);
  Graph g;
  const Value in = g.input("x", DType::f32, {n});
  g.output("u", cast(in, DType::u8));
  g.output("i", cast(in, DType::i8));
  const NamedTensors out = rlx::compile(g, full_device()).run({{"x", Tensor::of({n}, x)}});
  for (size_t i = 0; i < x.size(); ++i) {
    const double whole = std::isnan(x[i]) ? 0 : std::trunc(static_cast<double>(x[i]));
    EXPECT_EQ(out.at("u").integer(static_cast<int64_t>(i)), std::clamp(whole, 0.0, 255.0)) << x[i];
    EXPECT_EQ(out.at("i").integer(static_cast<int64_t>(i)), std::clamp(whole, -128.0, 127.0)) << x[i];
  }
}

// Elements of words, whole and with others' bytes around them, of all small types.
TEST(Quantize, ElementWiseFourBytesAtATime) {
  for (const int64_t n : {4, 17, 256, 1028}) {
    Graph g;
    const Value a = g.input("a", DType::u8, {3, n});
    const Value b = g.input("b", DType::i8, {3, n});
    const Value c = g.input("c", DType::bool_, {n});
    g.output("y", where(c, cast(bitwise_xor(a, 129), DType::i8), b));
    g.output("less", less(cast(a, DType::i32), cast(b, DType::i32)));
    g.output("part", slice(a, 1, 1, n - 2) + slice(a, 1, 0, n - 2));
    std::vector<int64_t> as, bs, cs;
    for (int64_t i = 0; i < 3 * n; ++i) {
      as.push_back(i * 37 % 256);
      bs.push_back(i * 91 % 256 - 128);
      if (i < n) cs.push_back(i % 3 == 0);
    }
    const NamedTensors out = rlx::compile(g, full_device())
                                 .run({{"a", Tensor::from_ints(DType::u8, {3, n}, as)},
                                       {"b", Tensor::from_ints(DType::i8, {3, n}, bs)},
                                       {"c", Tensor::from_ints(DType::bool_, {n}, cs)}});
    for (int64_t i = 0; i < 3 * n; ++i) {
      const auto p = static_cast<size_t>(i);
      const auto flipped = static_cast<int8_t>(as[p] ^ 129);
      EXPECT_EQ(out.at("y").integer(i), cs[static_cast<size_t>(i % n)] != 0 ? flipped : bs[p])
          << n << " " << i;
      EXPECT_EQ(out.at("less").integer(i), as[p] < bs[p]) << n << " " << i;
    }
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t i = 0; i < n - 2; ++i) {
        const auto p = static_cast<size_t>(row * n + i);
        EXPECT_EQ(out.at("part").integer(row * (n - 2) + i), (as[p] + as[p + 1]) % 256) << n << " " << i;
      }
    }
  }
}

// Pairs around a convolution, a depthwise one, an addition, a pool and a product, as ONNX Runtime writes
// them: a dispatch for each, the addition being part of the convolution before, and the bytes that the nodes
// give one by one.
TEST(Quantize, LayersBetweenPairsAreOneDispatchEach) {
  Graph g;
  const auto scale = [&](double s) { return g.scalar(DType::f32, s); };
  const Value zero = g.scalar(DType::u8, 113);
  const auto bytes = [&](Value v, double s) { return quantize(v, scale(s), zero, {.to = DType::u8}); };
  const auto pair = [&](Value v, double s) { return dequantize(bytes(v, s), scale(s), zero); };
  const auto weight = [&](const std::string& name, const Shape& shape, int64_t axis) {
    return dequantize(g.param(name, DType::i8, shape), g.param(name + "_scale", DType::f32, {shape[axis]}),
                      {}, axis);
  };
  const Value x = pair(g.input("x", DType::f32, {2, 3, 10, 12}), 0.0237);
  const Value bias = dequantize(g.param("b", DType::i32, {8}), scale(0.00013));
  const Value a = pair(relu(conv(x, weight("w1", {8, 3, 3, 3}, 0), bias, {.pads = {1, 1, 1, 1}})), 0.0317);
  const Value d =
      pair(conv(a, weight("w2", {8, 1, 3, 3}, 0), {}, {.pads = {1, 1, 1, 1}, .groups = 8}), 0.0253);
  const Value s = pair(a + d, 0.0411);
  const Value m = pair(max_pool(s, {2, 2}, {.strides = {2, 2}}), 0.0411);
  const Value flat = reshape(m, {2, 8 * 5 * 6});
  g.output("y", bytes(matmul(flat, weight("w3", {240, 7}, 1)), 0.0511));
  Executable exe = rlx::compile(g, full_device());
  EXPECT_EQ(exe.dispatch_count(), 5) << exe.plan_text();
  NamedTensors leaves;
  uint32_t state = 7;
  const auto next = [&] { return static_cast<int64_t>((state = state * 1664525 + 1013904223) >> 8); };
  for (const TensorInfo& p : exe.params()) {
    std::vector<double> values;
    for (int64_t i = 0; i < product(p.type.shape.values()); ++i) {
      const double v = static_cast<double>(next() % 255 - 127);
      values.push_back(p.type.dtype == DType::f32   ? 0.003 + std::abs(v) * 1.7e-5
                       : p.type.dtype == DType::i32 ? v * 97
                                                    : v);
    }
    leaves[p.name] = Tensor::from_doubles(p.type.dtype, p.type.shape.values(), values);
    exe.set_param(p.name, leaves.at(p.name));
  }
  std::vector<double> values;
  for (int i = 0; i < 720; ++i) values.push_back(static_cast<double>(next() % 2000 - 1000) / 371);
  leaves["x"] = Tensor::from_doubles(DType::f32, {2, 3, 10, 12}, values);
  const std::vector<int64_t> y = exe.run({{"x", leaves.at("x")}}).at("y").integers();
  const std::vector<int64_t> want = run_reference(g, leaves).at("y").ints;
  ASSERT_EQ(y.size(), want.size());
  EXPECT_NE(*std::ranges::min_element(want), *std::ranges::max_element(want));
  EXPECT_EQ(y, want);
}

// A chain of such layers with images of odd sizes: those between have their channels last, and a residual,
// scales of each channel and a mean are computed in that order too.
TEST(Quantize, DepthwiseLayersHaveTheirChannelsLast) {
  for (const auto& [channels, height, width] :
       {std::array<int64_t, 3>{8, 1, 1}, {12, 3, 17}, {36, 17, 3}, {4, 5, 257}}) {
    SCOPED_TRACE(formatted("{} channels, {} x {}", channels, height, width));
    Graph g;
    const auto scale = [&](double s) { return g.scalar(DType::f32, s); };
    const Value zero = g.scalar(DType::u8, 113);
    const auto pair = [&](Value v, double s) {
      return dequantize(quantize(v, scale(s), zero, {.to = DType::u8}), scale(s), zero);
    };
    const auto layer = [&](const std::string& name, Value x, int64_t filters, const ConvOptions& options,
                           double s) {
      const bool own = options.groups > 1;
      const Shape shape = own ? Shape{filters, 1, 3, 3} : Shape{filters, x.shape()[1].value(), 1, 1};
      const Value w =
          dequantize(g.param(name, DType::i8, shape), g.param(name + "_scale", DType::f32, {filters}), {}, 0);
      return pair(conv(x, w, g.param(name + "_bias", DType::f32, {filters}), options), s);
    };
    const ConvOptions own{.pads = {1, 1, 1, 1}, .groups = channels};
    const ConvOptions wide{.pads = {1, 1, 1, 1}, .groups = 2 * channels};
    const Value x = pair(g.input("x", DType::f32, {2, channels, height, width}), 0.0237);
    const Value a = layer("w1", x, channels, own, 0.03);
    const Value b = layer("w2", a, 2 * channels, {}, 0.02);
    const Value c = layer("w3", b, 2 * channels, wide, 0.03);
    const Value d = pair(layer("w4", c, channels, {}, 0.02) + a, 0.04);
    const Value e = layer("w5", d, channels, own, 0.03);
    g.output("y", quantize(mean(e, {2, 3}, true), scale(0.01), zero, {.to = DType::u8}));
    Executable exe = rlx::compile(g, full_device());
    NamedTensors leaves;
    uint32_t state = 11;
    const auto next = [&] { return static_cast<int64_t>((state = state * 1664525 + 1013904223) >> 8); };
    const auto random = [&](const TensorInfo& t, bool scales) {
      std::vector<double> values;
      for (int64_t i = 0; i < product(t.type.shape.values()); ++i) {
        const double v = static_cast<double>(next() % 255 - 127);
        values.push_back(t.type.dtype == DType::i8 ? v : scales ? 0.003 + std::abs(v) * 1.7e-5 : v / 50);
      }
      leaves[t.name] = Tensor::from_doubles(t.type.dtype, t.type.shape.values(), values);
    };
    for (const TensorInfo& p : exe.params()) {
      random(p, p.name.ends_with("_scale"));
      exe.set_param(p.name, leaves.at(p.name));
    }
    random(exe.inputs()[0], false);
    const NamedTensors got = exe.run({{"x", leaves.at("x")}});
    const auto want = run_reference(g, leaves);
    // A sum has fewer roundings than its nodes: next to a tie the byte may be the next one.
    const std::vector<int64_t> y = got.at("y").integers();
    int64_t others = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_LE(std::abs(y[i] - want.at("y").ints[i]), 1) << i;
      others += y[i] != want.at("y").ints[i] ? 1 : 0;
    }
    EXPECT_LE(others, 1 + std::ssize(y) / 8);
    if (full_device().caps().software()) {
      EXPECT_TRUE(std::ranges::any_of(exe.plan_report().run, [](const StepReport& s) {
        return has_words(s.variant, "depthwise_pixels");
      })) << exe.plan_text();
    }
  }
}

}  // namespace
}  // namespace rlx::testing
