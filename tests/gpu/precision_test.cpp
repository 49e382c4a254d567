// Precision::mixed and fast: factors, and sums, rounded to f16 on matrix units, with the error that
// docs/arithmetic.md promises, and never an infinity or a NaN that f32 would not have given.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "kernels/candidate.h"
#include "rlx/compile.h"
#include "rlx/diagnostics.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/devices.h"
#include "tests/support/encoded.h"

namespace rlx::testing {
namespace {

using Values = std::vector<float>;
using Number = std::function<float(std::mt19937& random, int64_t line, int64_t k)>;

constexpr float kInf = std::numeric_limits<float>::infinity();

// The kernel that rounds as much as the precision allows.
std::string kernel_of(Precision precision) {
  return precision == Precision::fast ? "halved matrix SUMS=16" : "halved matrix SUMS=32";
}

CompileOptions rounding(Precision precision, std::string op = "matmul") {
  return {.kernels = {{std::move(op), kernel_of(precision)}}, .precision = precision};
}

bool has_kernel(const Executable& exe, std::string_view words) {
  return std::ranges::any_of(exe.plan_report().run,
                             [&](const StepReport& s) { return has_words(s.variant, words); });
}

float uniform(std::mt19937& random) { return std::uniform_real_distribution<float>(-1, 1)(random); }

Values made(int64_t lines, int64_t depth, const Number& number, uint32_t seed) {
  std::mt19937 random(seed);
  Values out;
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t k = 0; k < depth; ++k) out.push_back(number(random, line, k));
  }
  return out;
}

double largest(const float* line, int64_t depth) {
  double most = 0;
  for (int64_t k = 0; k < depth; ++k) {
    if (const double one = std::fabs(static_cast<double>(line[k])); one > most) most = one;
  }
  return most;
}

// An error beside the sum of the magnitudes that were added.
struct Part {
  double error, of;
};

// y [m, n] of x [m, k] and w [n, k].
std::vector<Part> expect_within_bound(Precision precision, const Values& x, const Values& w, const Tensor& y,
                                      int64_t m, int64_t n, int64_t depth) {
  const bool fast = precision == Precision::fast;
  std::vector<Part> parts;
  int64_t wrong = 0;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t col = 0; col < n; ++col) {
      const float* const a = &x[static_cast<size_t>(row * depth)];
      const float* const b = &w[static_cast<size_t>(col * depth)];
      double sum = 0, products = 0, of_a = 0, of_b = 0;
      for (int64_t k = 0; k < depth; ++k) {
        sum += static_cast<double>(a[k]) * b[k];
        products += std::fabs(static_cast<double>(a[k]) * b[k]);
        of_a += std::fabs(static_cast<double>(a[k]));
        of_b += std::fabs(static_cast<double>(b[k]));
      }
      const double most_a = largest(a, depth);
      const double most_b = largest(b, depth);
      double bound = products * (0x1p-10 + static_cast<double>(depth + 4) * 0x1p-23) + 0x1p-126;
      bound += (fast ? 0x1p-17 : 0x1p-28) * (most_a * of_b + most_b * of_a);
      if (fast) bound += 0x1p-4 * products + 0x1p-20 * static_cast<double>(depth) * most_a * most_b;
      const double got = y.real(row * n + col);
      if (!(std::fabs(got - sum) <= bound) && wrong++ == 0) {
        ADD_FAILURE() << "row " << row << ", column " << col << ": " << got << " instead of " << sum
                      << ", allowed error " << bound;
      }
      parts.push_back({std::fabs(got - sum), products});
    }
  }
  EXPECT_EQ(wrong, 0);
  return parts;
}

struct Rounding {
  bool emulated;
  Precision precision;
};

class Rounded : public ::testing::TestWithParam<Rounding> {
 protected:
  void SetUp() override {
    if (!device().caps().shader_f16 || device().caps().subgroup_matrices.empty())
      GTEST_SKIP() << "the device has no matrix units of f16";
  }
  static const Device& device() { return GetParam().emulated ? emulating_device() : experimental_device(); }
  static Precision precision() { return GetParam().precision; }

  // x [m, k] times w [n, k] transposed, or w as it is stored, [k, n].
  static Tensor product(const Values& x, const Values& w, int64_t m, int64_t n, int64_t depth,
                        bool turned = true) {
    Graph g;
    const Value a = g.input("x", DType::f32, {m, depth});
    const Value b = g.input("w", DType::f32, turned ? Shape{n, depth} : Shape{depth, n});
    g.output("y", matmul(a, turned ? transpose(b, {1, 0}) : b));
    Executable exe = compile(g, device(), rounding(precision()));
    EXPECT_TRUE(has_kernel(exe, kernel_of(precision())));
    return exe
        .run({{"x", Tensor::of({m, depth}, x)},
              {"w", Tensor::of(turned ? std::vector{n, depth} : std::vector{depth, n}, w)}})
        .at("y");
  }
  static std::vector<Part> check(const Number& of_x, const Number& of_w, int64_t m, int64_t n,
                                 int64_t depth) {
    const Values x = made(m, depth, of_x, 1);
    const Values w = made(n, depth, of_w, 2);
    return expect_within_bound(precision(), x, w, product(x, w, m, n, depth), m, n, depth);
  }
};

Number times(float scale) {
  return [scale](std::mt19937& random, int64_t, int64_t) { return scale * uniform(random); };
}
// Lines with scales of their own, from 2^-60 to 2^60.
float of_any_scale(std::mt19937& random, int64_t line, int64_t) {
  return std::ldexp(uniform(random), static_cast<int>(line * 37 % 121) - 60);
}

TEST_P(Rounded, KeepsItsBound) {
  check(times(1), times(1), 17, 36, 64);
  check([](std::mt19937& random, int64_t, int64_t) { return 100 + uniform(random); },
        [](std::mt19937& random, int64_t, int64_t) { return 100 + uniform(random); }, 5, 8, 4096);
  check(times(65000), times(1e-6f), 17, 36, 64);
  check(times(1e-6f), times(65000), 17, 36, 64);
  check(of_any_scale, of_any_scale, 33, 40, 64);
  check(times(1e-34f), times(1), 3, 4, 20);
  check(times(1e30f), times(1e-30f), 3, 4, 20);
  check(times(0), times(1), 3, 4, 20);
  // 65,000 and 1e-6 in one line.
  check([](std::mt19937& random, int64_t,
           int64_t k) { return uniform(random) * (k % 2 == 0 ? 65000.0f : 1e-6f); },
        times(1), 9, 12, 68);
}

TEST_P(Rounded, OfColumnsThatLieSideBySide) {
  constexpr int64_t m = 19, n = 36, depth = 52;
  const Values x = made(m, depth, of_any_scale, 3);
  const Values w = made(n, depth, of_any_scale, 4);
  Values turned(w.size());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < depth; ++k)
      turned[static_cast<size_t>(k * n + i)] = w[static_cast<size_t>(i * depth + k)];
  }
  expect_within_bound(precision(), x, w, product(x, turned, m, n, depth, false), m, n, depth);
}

TEST_P(Rounded, HasTheInfinitiesAndNansOfF32AndNoOthers) {
  constexpr int64_t m = 6, n = 4, depth = 24;
  Values x = made(m, depth, times(3e38f), 5);
  Values w = made(n, depth, times(1e-3f), 6);
  const auto at = [](Values& v, int64_t line, int64_t k) -> float& {
    return v[static_cast<size_t>(line * depth + k)];
  };
  at(x, 1, 3) = kInf;
  at(x, 2, 3) = -kInf;
  at(x, 3, 3) = std::nanf("");
  at(x, 4, 3) = kInf;
  at(x, 4, 4) = -kInf;
  for (int64_t k = 0; k < depth; ++k) at(x, 5, k) = std::copysign(2e38f, at(x, 5, k));
  at(w, 1, 7) = kInf;
  at(w, 2, 3) = 0;
  at(w, 3, 3) = 1e-30f;  // 0 as f16
  const Tensor y = product(x, w, m, n, depth);
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t col = 0; col < n; ++col) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += at(x, row, k) * at(w, col, k);
      const double got = y.real(row * n + col);
      if (std::isnan(sum)) {
        EXPECT_TRUE(std::isnan(got)) << row << ", " << col;
      } else if (std::isinf(sum)) {
        EXPECT_EQ(got, sum) << row << ", " << col;
      } else {
        EXPECT_TRUE(std::isfinite(got)) << row << ", " << col << ": " << got << " instead of " << sum;
      }
    }
  }
}

TEST_P(Rounded, VerifiesWithItsBound) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3, 9, 7});
  const Value w = g.param("w", DType::f32, {8, 3, 3, 3});
  g.output("y", conv(x, w));
  CompileOptions options = rounding(precision(), "conv");
  options.keep_intermediates = true;
  Executable exe = compile(g, device(), options);
  const NamedTensors leaves = {{"x", Tensor::of({2, 3, 9, 7}, made(2, 3 * 9 * 7, times(300), 7))},
                               {"w", Tensor::of({8, 3, 3, 3}, made(8, 27, times(1e-5f), 8))}};
  exe.set_param("w", leaves.at("w"));
  const NamedTensors y = exe.run({{"x", leaves.at("x")}});
  ASSERT_TRUE(has_kernel(exe, kernel_of(precision())));
  const std::vector<NodeCheck> checks = verify_nodes(exe);
  const auto check = std::ranges::find(checks, "conv", &NodeCheck::op);
  ASSERT_NE(check, checks.end());
  EXPECT_EQ(check->wrong, 0);
  EXPECT_GT(check->max_error, 0);
  EXPECT_LE(check->max_error, check->bound);
  EXPECT_EQ(check->rounding, precision());
  for (const NodeCheck& c : checks) EXPECT_TRUE(c.wrong == 0 && (c.op == "conv" || c.bound == 0)) << c.node;
  for (const OutputCheck& c : verify_outputs(g, leaves, y, {}, precision()))
    EXPECT_EQ(c.wrong, 0) << to_text(c);
  // What is allowed is no more than that: without it, the same results are wrong.
  for (const OutputCheck& c : verify_outputs(g, leaves, y)) EXPECT_GT(c.wrong, 0);
}

// Constants are rounded alike: their errors add up.
TEST_P(Rounded, VerifiesEqualNumbers) {
  Graph g;
  g.output("y", matmul(g.input("x", DType::f32, {8, 1024}), g.input("w", DType::f32, {1024, 8})));
  CompileOptions options = rounding(precision());
  options.keep_intermediates = true;
  Executable exe = compile(g, device(), options);
  const NamedTensors inputs = {{"x", Tensor::full(DType::f32, {8, 1024}, 1.0 / 3)},
                               {"w", Tensor::full(DType::f32, {1024, 8}, 1e-9 / 3)}};
  const NamedTensors y = exe.run(inputs);
  ASSERT_TRUE(has_kernel(exe, kernel_of(precision())));
  const std::vector<NodeCheck> checks = verify_nodes(exe);
  for (const NodeCheck& c : checks)
    EXPECT_EQ(c.wrong, 0) << c.node << ": " << c.max_error << " of " << c.allowed;
  EXPECT_LT(std::ranges::max(checks, {}, &NodeCheck::bound).bound, 1e-8);  // of 1.1e-7
  for (const OutputCheck& c : verify_outputs(g, inputs, y, {}, precision()))
    EXPECT_EQ(c.wrong, 0) << to_text(c);
}

// In parts, since a submit may take a millisecond alone: each of them has rounded factors.
TEST_P(Rounded, StaysRightInParts) {
  constexpr int64_t m = 200, n = 132, depth = 200;
  const Values x = made(m, depth, of_any_scale, 20);
  const Values w = made(n, depth, of_any_scale, 21);
  Graph g;
  g.output("y", matmul(g.input("x", DType::f32, {m, depth}),
                       transpose(g.input("w", DType::f32, {n, depth}), {1, 0})));
  CompileOptions options = rounding(precision());
  options.submit_ms = 1;
  Executable exe = compile(g, device(), options);
  const Tensor y = exe.run({{"x", Tensor::of({m, depth}, x)}, {"w", Tensor::of({n, depth}, w)}}).at("y");
  EXPECT_GT(std::ranges::count_if(
                exe.plan_report().run,
                [&](const StepReport& s) { return has_words(s.variant, kernel_of(precision())); }),
            1);
  expect_within_bound(precision(), x, w, y, m, n, depth);
}

TEST_P(Rounded, DecodesWeights) {
  constexpr int64_t m = 7, n = 12, depth = 64;
  const Values x = made(m, depth, times(70000), 9);
  const Tensor w = ggml_tensor(DType::q8_0, {n, depth});
  Graph g;
  const Value a = g.input("x", DType::f32, {m, depth});
  g.output("y", matmul(a, transpose(g.param("w", DType::q8_0, {n, depth}), {1, 0})));
  Executable exe = compile(g, device(), rounding(precision()));
  exe.set_param("w", w);
  const Tensor y = exe.run({{"x", Tensor::of({m, depth}, x)}}).at("y");
  ASSERT_TRUE(has_kernel(exe, kernel_of(precision())));
  Values decoded;
  for (int64_t i = 0; i < n * depth; ++i) decoded.push_back(static_cast<float>(w.real(i)));
  expect_within_bound(precision(), x, decoded, y, m, n, depth);
}

// Products of one x, which passes put together, with an output for each.
TEST_P(Rounded, WritesSeveralOutputs) {
  constexpr int64_t m = 6, depth = 68;
  const std::vector<int64_t> widths = {12, 8, 20};
  const Values x = made(m, depth, times(70000), 13);
  Graph g;
  const Value in = g.input("x", DType::f32, {m, depth});
  std::vector<Values> weights;
  for (size_t i = 0; i < widths.size(); ++i) {
    weights.push_back(made(widths[i], depth, times(1e-6f), 14 + static_cast<uint32_t>(i)));
    const Value w = g.param(formatted("w{}", i), DType::f32, {widths[i], depth});
    g.output(formatted("y{}", i), matmul(in, transpose(w, {1, 0})));
  }
  Executable exe = compile(g, device(), rounding(precision()));
  for (size_t i = 0; i < widths.size(); ++i)
    exe.set_param(formatted("w{}", i), Tensor::of({widths[i], depth}, weights[i]));
  const NamedTensors y = exe.run({{"x", Tensor::of({m, depth}, x)}});
  EXPECT_EQ(std::ranges::count_if(exe.plan_report().run,
                                  [&](const StepReport& s) {
                                    return has_words(s.variant, kernel_of(precision())) &&
                                           s.kernel.contains("matrix");
                                  }),
            1);
  for (size_t i = 0; i < widths.size(); ++i)
    expect_within_bound(precision(), x, weights[i], y.at(formatted("y{}", i)), m, widths[i], depth);
}

// Sums of f16 would otherwise be tested by a bound that sums of f32 keep as well.
TEST_P(Rounded, SumsAsItSays) {
  double square = 0, of = 0;
  for (const Part& part :
       check([](std::mt19937& random, int64_t, int64_t) { return 2 + uniform(random); },
             [](std::mt19937& random, int64_t, int64_t) { return 2 + uniform(random); }, 16, 16, 1024)) {
    square += part.error * part.error;
    of += part.of * part.of;
  }
  const double error = std::sqrt(square / of);
  if (precision() == Precision::fast) {
    EXPECT_GT(error, 0x1p-14);
    EXPECT_LT(error, 0x1p-9);
  } else {
    EXPECT_LT(error, 0x1p-14);
  }
}

// 128 products of the largest factors there are: their sum is the largest that f16 has to hold.
TEST_P(Rounded, HoldsTheLargestSums) {
  check([](std::mt19937&, int64_t, int64_t) { return 1.9999f; },
        [](std::mt19937&, int64_t, int64_t) { return -1.9999f; }, 16, 16, 512);
}

// Factors that f16 holds may have sums that it does not hold.
TEST_P(Rounded, ScalesFactorsOfHalves) {
  if (precision() != Precision::fast) return;  // they are multiplied as they are
  constexpr int64_t m = 5, n = 8, depth = 256;
  const Number near = [](std::mt19937&, int64_t, int64_t k) { return 1500 + static_cast<float>(k % 7); };
  const Number sign = [](std::mt19937&, int64_t, int64_t k) { return k % 128 < 64 ? 1.0f : -1.0f; };
  const Values x = made(m, depth, near, 0);
  const Values w = made(n, depth, sign, 0);
  Graph g;
  const Value b = transpose(g.param("w", DType::f16, {n, depth}), {1, 0});
  g.output("y", cast(matmul(cast(g.input("x", DType::f32, {m, depth}), DType::f16), b), DType::f32));
  Executable exe = compile(g, device(), rounding(precision()));
  exe.set_param("w", Tensor::of({n, depth}, w));
  const Tensor y = exe.run({{"x", Tensor::of({m, depth}, x)}}).at("y");
  ASSERT_TRUE(has_kernel(exe, kernel_of(precision())));
  expect_within_bound(precision(), x, w, y, m, n, depth);
}

INSTANTIATE_TEST_SUITE_P(Units, Rounded,
                         ::testing::Values(Rounding{false, Precision::mixed},
                                           Rounding{true, Precision::mixed}, Rounding{false, Precision::fast},
                                           Rounding{true, Precision::fast}),
                         [](const auto& test) {
                           return formatted("{}_{}", to_string(test.param.precision),
                                            test.param.emulated ? "emulated" : "real");
                         });

TEST(Precision, IsExactUnlessAskedFor) {
  Graph g;
  g.output("y", matmul(g.input("x", DType::f32, {8, 8}), g.input("w", DType::f32, {8, 8})));
  for (const CompileOptions& options :
       {CompileOptions{}, CompileOptions{.precision = Precision::mixed, .matmul_f32_only = true},
        CompileOptions{.precision = Precision::mixed, .matrix_units = {.round = false}},
        CompileOptions{.precision = Precision::mixed, .matrix_units = {.f16 = false}}}) {
    CompileOptions forced = options;
    forced.kernels = {{"matmul", "halved"}};
    EXPECT_FALSE(has_kernel(compile(g, experimental_device(), forced), "halved"));
  }
}

}  // namespace
}  // namespace rlx::testing
