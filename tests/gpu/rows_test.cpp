// What the sweep's random numbers do not reach: NaN and infinities along rows, ties, and rows far from zero.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ops/machinery/op_table.h"
#include "rlx/compile.h"
#include "rlx/error.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/reductions.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLowest = std::numeric_limits<float>::lowest();

// The result of `op` on one row, for every kernel variant of it. The one that holds rows in registers gets
// -inf behind those that are not whole fours, which it does not take.
class EveryVariant {
 public:
  using Build = std::function<Value(Value x)>;

  static void check(std::string op, const std::vector<float>& given, const Build& build,
                    const std::function<void(const Tensor& y)>& expect) {
    for (const std::string& variant : op_table().find(op)->variants) {
      SCOPED_TRACE(op + " " + variant);
      std::vector<float> row = given;
      while (variant == "held" && row.size() % 4 != 0) row.push_back(-kInf);
      const auto n = static_cast<int64_t>(row.size());
      Graph g;
      g.output("y", build(g.input("x", DType::f32, Shape({n}))));
      Executable exe = compile(g, full_device(), {.kernels = {{op, variant}}});
      expect(exe.run({{"x", Tensor::of<float>({n}, row)}}).at("y"));
    }
  }
};

// 40 numbers with the given ones from place 21 on.
std::vector<float> row_with(const std::vector<float>& special) {
  std::vector<float> row(43);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 7) - 3.0f;
  std::copy(special.begin(), special.end(), row.begin() + 21);
  return row;
}

TEST(Rows, MaximumAndMinimumKeepNan) {
  using Reduction = Value (*)(Value, std::vector<int64_t>, bool);
  const std::pair<const char*, Reduction> reductions[] = {{"max", max}, {"min", min}, {"sum", sum}};
  for (const auto& [op, reduction] : reductions) {
    for (const float nan : {kNan, -kNan}) {
      EveryVariant::check(
          op, row_with({kInf, nan, -kInf}), [&](Value x) { return reduction(x, {}, false); },
          [](const Tensor& y) { EXPECT_TRUE(std::isnan(y.real(0))); });
    }
  }
}

TEST(Rows, MaximumOfInfinities) {
  EveryVariant::check(
      "max", std::vector<float>(19, -kInf), [](Value x) { return max(x); },
      [](const Tensor& y) { EXPECT_EQ(y.real(0), -kInf); });
  EveryVariant::check(
      "min", row_with({-kInf}), [](Value x) { return min(x); },
      [](const Tensor& y) { EXPECT_EQ(y.real(0), -kInf); });
}

TEST(Rows, ArgmaxGivesTheFirstOfEqualsAndTheFirstNan) {
  const auto expect = [](int64_t index) {
    return [index](const Tensor& y) { EXPECT_EQ(y.integer(0), index); };
  };
  const auto largest = [](Value x) { return argmax(x); };
  const auto smallest = [](Value x) { return argmin(x); };
  EveryVariant::check("argmax", row_with({kInf, kNan, -kNan, kInf}), largest, expect(22));
  EveryVariant::check("argmin", row_with({-kInf, 0, -kNan, kNan}), smallest, expect(23));
  EveryVariant::check("argmax", row_with({kInf, kInf}), largest, expect(21));
  EveryVariant::check("argmin", row_with({-kInf, -kInf}), smallest, expect(21));
  EveryVariant::check("argmax", {-0.0f, 0.0f, -0.0f, -1.0f, 0.0f}, largest, expect(0));
  EveryVariant::check("argmin", {0.0f, -0.0f, 1.0f, -0.0f, 0.0f}, smallest, expect(0));
  EveryVariant::check("argmax", std::vector<float>(9, -kInf), largest, expect(0));
}

TEST(Rows, SoftmaxIsNanForRowsWithoutANumberToStandOn) {
  for (const bool log : {false, true}) {
    const std::string op = log ? "log_softmax" : "softmax";
    const auto build = [log](Value x) { return log ? log_softmax(x) : softmax(x); };
    const auto all_nan = [](const Tensor& y) {
      for (int64_t i = 0; i < y.elements(); ++i) EXPECT_TRUE(std::isnan(y.real(i))) << i;
    };
    EveryVariant::check(op, std::vector<float>(43, -kInf), build, all_nan);
    EveryVariant::check(op, row_with({kNan}), build, all_nan);
    EveryVariant::check(op, row_with({-kNan, kInf}), build, all_nan);
    EveryVariant::check(op, row_with({kInf}), build, all_nan);
  }
}

TEST(Rows, SoftmaxOfMaskedElementsIsZero) {
  std::vector<float> row(43, -kInf);
  row[0] = -1000;
  row[40] = -1000;
  row[42] = kLowest;
  EveryVariant::check(
      "softmax", row, [](Value x) { return softmax(x); },
      [](const Tensor& y) {
        for (int64_t i = 0; i < y.elements(); ++i) EXPECT_EQ(y.real(i), i == 0 || i == 40 ? 0.5 : 0.0) << i;
      });
  EveryVariant::check(
      "log_softmax", row, [](Value x) { return log_softmax(x); },
      [](const Tensor& y) {
        EXPECT_NEAR(y.real(0), -std::log(2.0), 1e-7);
        EXPECT_EQ(y.real(1), -kInf);
      });
  // Masks are also made with the lowest float: a row of it is uniform, not NaN.
  EveryVariant::check(
      "softmax", std::vector<float>(16, kLowest), [](Value x) { return softmax(x); },
      [](const Tensor& y) { EXPECT_EQ(y.real(3), 1.0 / 16); });
}

TEST(Rows, LayerNormKeepsItsDigitsFarFromZero) {
  std::vector<float> row(256);
  for (size_t i = 0; i < row.size(); ++i) row[i] = 4096.0f + static_cast<float>(i % 2);
  EveryVariant::check(
      "layer_norm", row,
      [](Value x) {
        return layer_norm(x, x.graph().constant(Tensor::of<float>({256}, std::vector<float>(256, 1))));
      },
      [](const Tensor& y) {
        // Mean 4096.5 and variance 1/4 are exact in f32.
        const double want = 0.5 / std::sqrt(0.25 + 1e-5);
        EXPECT_NEAR(y.real(0), -want, 4e-7);
        EXPECT_NEAR(y.real(255), want, 4e-7);
      });
}

TEST(Rows, MeanOfNothingIsNan) {
  Graph g;
  g.output("y", mean(g.input("x", DType::f32, Shape({2, 0})), {1}));
  const Tensor y = compile(g, full_device()).run({{"x", Tensor::of<float>({2, 0}, {})}}).at("y");
  EXPECT_TRUE(std::isnan(y.real(0)) && std::isnan(y.real(1)));
}

TEST(Rows, MistakesAreNamed) {
  Graph g;
  const Value x = g.input("x", DType::f32, Shape({2, 3}));
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_TRUE(message([&] { sum(x, {0, -2}); }).contains("axis 0 is named twice"));
  EXPECT_TRUE(message([&] { sum(x, {2}); }).contains("axis 2 is outside rank 2"));
  EXPECT_TRUE(message([&] { layer_norm(x, x); }).contains("gamma has shape [2, 3]"));
  EXPECT_TRUE(message([&] { argmax(g.input("e", DType::f32, Shape({2, 0}))); }).contains("length 0"));
  EXPECT_TRUE(message([&] { softmax(cast(x, DType::i32)); }).contains("i32"));
}

}  // namespace
}  // namespace rlx::testing
