// Factorisations and linear systems against LAPACK, as NumPy and PyTorch call it
// (tests/fixtures/make_linear_algebra.py), and what samples cannot express: matrices that are singular or
// positive definite, NaN, many of them, large ones by their residuals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/format.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/fixture_cases.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

// --- LAPACK ---

void expect_lapacks(const Device* device) {
  const std::vector<FixtureCase> cases = fixture_cases("linear_algebra");
  EXPECT_GT(cases.size(), 30u);
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name + ": " + c.call);
    const NamedTensors got = run_or_reference(c.graph, c.inputs, device);
    for (size_t i = 0; i < c.results.size(); ++i)
      EXPECT_TRUE(close(got.at(formatted("y{}", i)), RefTensor::from(c.results[i]), rounded_tolerance(c)))
          << i;
  }
}

TEST(LinearAlgebra, IsLapacks) { expect_lapacks(&full_device()); }
TEST(LinearAlgebra, IsLapacksUnderSmallLimits) { expect_lapacks(&small_device()); }
TEST(LinearAlgebra, HasTheSameReference) { expect_lapacks(nullptr); }

// --- Large matrices, by residuals ---

using Matrix = std::vector<double>;  // row-major

Matrix multiply(const Matrix& a, const Matrix& b, int64_t m, int64_t k, int64_t n) {
  Matrix c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<size_t>(i * n + j)] +=
            a[static_cast<size_t>(i * k + p)] * b[static_cast<size_t>(p * n + j)];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a, int64_t m, int64_t n) {
  Matrix t(a.size());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) t[static_cast<size_t>(j * m + i)] = a[static_cast<size_t>(i * n + j)];
  }
  return t;
}

Matrix values(const Tensor& t) {
  Matrix out;
  for (int64_t i = 0; i < t.elements(); ++i) out.push_back(t.real(i));
  return out;
}

Tensor random_floats(const std::vector<int64_t>& dims, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> out(static_cast<size_t>(Tensor::full(DType::f32, dims, 0).elements()));
  for (double& v : out) v = uniform(random);
  return Tensor::from_doubles(DType::f32, dims, out);
}

void expect_near(const Matrix& got, const Matrix& want, double tolerance) {
  EXPECT_TRUE(within(got, want, tolerance));
}

constexpr int64_t kLarge = 257;
// Backward error: n roundings of numbers of the size of the matrix.
constexpr double kResidual = 1.2e-7 * kLarge * 4;

// Under small limits a matrix of this size takes several bindings.
void expect_small_residuals(const Device& device) {
  Graph g;
  const Value a = g.input("a", DType::f32, {kLarge, kLarge});
  const Value square = matmul(a, transpose(a)) + g.input("diagonal", DType::f32, {kLarge, kLarge});
  const Solution solved = solve(a, g.input("b", DType::f32, {kLarge}));
  const CholeskyFactor roots = cholesky(square);
  const QrFactors factors = qr(a);
  g.output("x", solved.x);
  g.output("square", square);
  g.output("root", roots.l);
  g.output("q", factors.q);
  g.output("r", factors.r);
  NamedTensors in{{"a", random_floats({kLarge, kLarge}, 1)}, {"b", random_floats({kLarge}, 2)}};
  Matrix diagonal(static_cast<size_t>(kLarge * kLarge));
  for (size_t i = 0; i < kLarge; ++i) diagonal[i * (kLarge + 1)] = 1;
  in["diagonal"] = Tensor::from_doubles(DType::f32, {kLarge, kLarge}, diagonal);
  const NamedTensors y = compile(g, device).run(in);
  const Matrix m = values(in.at("a"));
  const Matrix x = values(y.at("x"));
  expect_near(multiply(m, x, kLarge, kLarge, 1), values(in.at("b")),
              kResidual * std::max(1.0, largest_size(x)));
  const Matrix root = values(y.at("root"));
  expect_near(multiply(root, transposed(root, kLarge, kLarge), kLarge, kLarge, kLarge),
              values(y.at("square")), kResidual * 16);
  const Matrix q = values(y.at("q"));
  expect_near(multiply(transposed(q, kLarge, kLarge), q, kLarge, kLarge, kLarge), diagonal, kResidual);
  expect_near(multiply(q, values(y.at("r")), kLarge, kLarge, kLarge), m, kResidual);
}

TEST(LinearAlgebra, LargeMatricesHaveSmallResiduals) { expect_small_residuals(full_device()); }
TEST(LinearAlgebra, LargeMatricesHaveSmallResidualsUnderSmallLimits) {
  expect_small_residuals(small_device());
}

// --- Many ---

TEST(LinearAlgebra, SolvesMoreSystemsThanAGridHasWorkgroups) {
  constexpr int64_t kMany = 70'001;
  std::vector<double> a, b;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int64_t i = 0; i < kMany; ++i) {
    for (const double large : {0.0, 3.0, 3.0, 0.0}) a.push_back(large + uniform(random));
    for (int j = 0; j < 2; ++j) b.push_back(uniform(random));
  }
  Graph g;
  const Solution y = solve(g.input("a", DType::f32, {kMany, 2, 2}), g.input("b", DType::f32, {kMany, 2}));
  g.output("x", y.x);
  g.output("info", y.info);
  for (const char* kernel : {"each", "panels"}) {
    const NamedTensors got = compile(g, full_device(), {.kernels = {{"solve", kernel}}})
                                 .run({{"a", Tensor::from_doubles(DType::f32, {kMany, 2, 2}, a)},
                                       {"b", Tensor::from_doubles(DType::f32, {kMany, 2}, b)}});
    for (size_t i = 0; i < kMany; ++i) {
      const double det = a[4 * i] * a[4 * i + 3] - a[4 * i + 1] * a[4 * i + 2];
      const auto first = static_cast<int64_t>(2 * i);
      ASSERT_NEAR(got.at("x").real(first), (b[2 * i] * a[4 * i + 3] - a[4 * i + 1] * b[2 * i + 1]) / det,
                  1e-5)
          << i;
      ASSERT_NEAR(got.at("x").real(first + 1), (a[4 * i] * b[2 * i + 1] - b[2 * i] * a[4 * i + 2]) / det,
                  1e-5)
          << i;
      ASSERT_EQ(got.at("info").real(static_cast<int64_t>(i)), 0);
    }
  }
}

TEST(LinearAlgebra, TakesBatchesWithASymbol) {
  Graph g;
  const Value a = g.input("a", DType::f32, {"batch", 2, 2});
  g.output("x", solve(a, g.input("b", DType::f32, {"batch", 2, 1})).x);
  Executable exe = compile(g, full_device());
  for (const int64_t batch : {0, 1, 3}) {
    std::vector<double> matrices, sides;
    for (int64_t i = 0; i < batch; ++i) {
      for (const double v : {0.0, 2.0, 4.0, 0.0}) matrices.push_back(v);
      for (const double v : {6.0, 8.0}) sides.push_back(v);
    }
    const Tensor x = exe.run({{"a", Tensor::from_doubles(DType::f32, {batch, 2, 2}, matrices)},
                              {"b", Tensor::from_doubles(DType::f32, {batch, 2, 1}, sides)}})
                         .at("x");
    ASSERT_EQ(x.elements(), 2 * batch);
    for (int64_t i = 0; i < batch; ++i) {
      EXPECT_EQ(x.real(2 * i), 2);
      EXPECT_EQ(x.real(2 * i + 1), 3);
    }
  }
}

// --- What has no solution ---

TEST(LinearAlgebra, SaysWhichMatricesAreSingular) {
  Graph g;
  const Value a = g.input("a", DType::f32, {5, 3, 3});
  const Solution y = solve(a, g.input("b", DType::f32, {5, 3}));
  g.output("x", y.x);
  g.output("info", y.info);
  g.output("inverse", inverse(a));
  const float inf = INFINITY;
  const Tensor matrices = Tensor::of<float>({5, 3, 3}, {2, 0, 0, 0, 2,   0, 0, 0, 2,  // fine
                                                        1, 2, 3, 2, 4,   6, 1, 1, 1,  // two rows are parallel
                                                        1, 0, 2, 3, 0,   4, 5, 0, 6,  // a column of zeros
                                                        1, 2, 3, 4, NAN, 6, 7, 8, 10,  // not a number
                                                        1, 2, 3, 4, 5,   6, 7, 8, inf});
  const Tensor b = Tensor::of<float>({5, 3}, std::vector<float>(15, 1));
  for (const char* kernel : {"each", "panels"}) {
    SCOPED_TRACE(kernel);
    const NamedTensors got = compile(g, full_device(), {.kernels = {{"solve", kernel}, {"inverse", kernel}}})
                                 .run({{"a", matrices}, {"b", b}});
    const std::vector<double> info = {0, 3, 2, 0, 0};
    for (size_t i = 0; i < info.size(); ++i) {
      const auto n = static_cast<int64_t>(i);
      EXPECT_EQ(got.at("info").real(n), info[i]) << i;
      for (int64_t j = 0; j < 3 && i > 0 && i < 4; ++j)
        EXPECT_TRUE(std::isnan(got.at("x").real(3 * n + j))) << i;
      for (int64_t j = 0; j < 9 && i > 0 && i < 3; ++j)
        EXPECT_TRUE(std::isnan(got.at("inverse").real(9 * n + j))) << i;
    }
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(got.at("x").real(j), 0.5);
    const std::map<std::string, RefTensor> want = run_reference(g, {{"a", matrices}, {"b", b}});
    EXPECT_TRUE(close(got.at("x"), want.at("x"), {.ulps = 64}));
  }
}

TEST(LinearAlgebra, RefusesShapesThatDoNotFit) {
  Graph g;
  const Value a = g.input("a", DType::f32, {2, 3, 3});
  const Value wide = g.input("wide", DType::f32, {3, 4});
  EXPECT_SAYS(solve(wide, wide), "solve: the last two axes of [3, 4] are no square matrix");
  EXPECT_SAYS(solve(a, g.input("b", DType::f32, {2, 4})), "differ in their rows");
  EXPECT_SAYS(triangular_solve(a, g.input("c", DType::f32, {3})), "where matrices are needed");
  EXPECT_SAYS(cholesky(wide), "no square matrix");
  EXPECT_SAYS(qr(g.input("i", DType::i32, {3, 3})), "a float type");
}

}  // namespace
}  // namespace rlx::testing
