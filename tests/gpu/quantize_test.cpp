// Quantisation on the device, and products of integers with what follows them.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/reference.h"
#include "ops/quantization/byte_product.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/quantization.h"
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

// One that finds the range, one that quantises, and the product with its scales, zero points and bias.
TEST(Quantize, ADynamicallyQuantisedLayerIsThreeDispatches) {
  Graph g;
  const Value x = g.input("x", DType::f32, {5, 36});
  const Value w = g.param("w", DType::i8, {36, 12});
  const auto [bytes, scale, zero] = dynamic_quantize(x);
  const Value sums = byte_product(bytes, cast(zero, DType::i32), w, {});
  g.output("y", cast(sums, DType::f32) * (scale * g.param("w_scale", DType::f32, {})) +
                    g.param("b", DType::f32, {12}));
  Executable exe = rlx::compile(g, full_device());
  EXPECT_EQ(exe.dispatch_count(), 3);
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

}  // namespace
}  // namespace rlx::testing
