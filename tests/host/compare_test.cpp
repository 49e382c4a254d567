// The comparisons of the tests fail where they must, and nobody writes another one that does not.
#include "tests/support/compare.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <string>

#include "ir/tolerance.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(Compare, DifferencesAreNeverNaN) {
  EXPECT_EQ(difference(3, 5), 2);
  EXPECT_EQ(difference(-0.0, 0), 0);
  EXPECT_EQ(difference(kNan, -kNan), 0);
  EXPECT_EQ(difference(kInf, kInf), 0);
  EXPECT_EQ(difference(-kInf, -kInf), 0);
  for (const auto& [a, b] : {std::pair(kNan, 0.0), {kNan, kInf}, {kInf, -kInf}, {kInf, 1e300}}) {
    EXPECT_EQ(difference(a, b), kInf) << a << " " << b;
    EXPECT_EQ(difference(b, a), kInf) << a << " " << b;
  }
}

TEST(Compare, OnlyNaNMatchesNaNAndOnlyInfinitiesThemselves) {
  const std::vector<double> numbers = {1, -2, 3, 4};
  const std::vector<double> special = {kNan, kInf, -kInf, 0, 1};
  // What is wanted is a number among others, so that it is neither the first nor the last that is looked at.
  for (const double want : special) {
    for (const double got : special) {
      std::vector<double> w = numbers, g = numbers;
      w[1] = want;
      g[1] = got;
      const bool same = want == got || (std::isnan(want) && std::isnan(got));
      SCOPED_TRACE(::testing::PrintToString(std::pair(got, want)));
      EXPECT_EQ(static_cast<bool>(within(g, w, 0.5)), same);
      EXPECT_EQ(static_cast<bool>(within(g, w, 0, 0.5)), same);
      const Tensor a = Tensor::from_doubles(DType::f32, {4}, g);
      const Tensor b = Tensor::from_doubles(DType::f32, {4}, w);
      EXPECT_EQ(static_cast<bool>(within(a, b, 0.5)), same);
      EXPECT_EQ(static_cast<bool>(close(a, RefTensor::from(b), {.ulps = 4, .scale = 1})), same);
    }
  }
}

TEST(Compare, ErrorsAreAllowedUpToTheBound) {
  EXPECT_TRUE(within(std::vector{1.25, -8.5}, std::vector{1.0, -8.0}, 0.5));
  EXPECT_FALSE(within(std::vector{1.25, -8.5}, std::vector{1.0, -8.0}, 0.25));
  EXPECT_TRUE(within(std::vector{1.25, -8.5}, std::vector{1.0, -8.0}, 0.125, 0.125));
  EXPECT_FALSE(within(std::vector{1.25, -8.5}, std::vector{1.0, -8.0}, 0.125, 0.0625));
  EXPECT_FALSE(within(std::vector{1.0}, std::vector{1.0, 2.0}, 9));
  EXPECT_FALSE(
      within(Tensor::of({1, 2}, std::vector<float>{1, 2}), Tensor::of({2}, std::vector<float>{1, 2}), 9));
  const std::string said = within(std::vector{1.0, kNan}, std::vector{1.0, 2.0}, 0.5).message();
  EXPECT_TRUE(said.contains("1 of 2 numbers differ; number 1 is nan instead of 2 (allowed error 0.5)"))
      << said;
}

// A complex number may be infinite in one part; the other one still counts.
TEST(Compare, PartsOfComplexNumbersAreComparedEach) {
  const auto complex = [](float re, float im) {
    const std::vector<float> parts = {re, im};
    const auto bytes = std::as_bytes(std::span(parts));
    return Tensor(DType::c64, {1}, std::vector<std::byte>(bytes.begin(), bytes.end()));
  };
  const auto inf = std::numeric_limits<float>::infinity();
  for (const auto& [want, got, same] : {std::tuple(complex(1, 2), complex(1, 2), true),
                                        {complex(1, 2), complex(1, 3), false},
                                        {complex(inf, 2), complex(inf, 2), true},
                                        {complex(inf, 2), complex(inf, 3), false},
                                        {complex(inf, 2), complex(7, 2), false},
                                        {complex(NAN, 2), complex(NAN, 3), false}}) {
    SCOPED_TRACE(to_string(got) + " instead of " + to_string(want));
    EXPECT_EQ(static_cast<bool>(within(got, want, 1e-3)), same);
    EXPECT_EQ(static_cast<bool>(close(got, RefTensor::from(want), {.ulps = 4, .scale = 1})), same);
  }
}

TEST(Compare, TheLargestSizeIsFinite) {
  EXPECT_EQ(largest_size({}), 0);
  EXPECT_EQ(largest_size(std::vector{1.0, kNan, -3.0, kInf, -kInf, 2.0}), 3);
}

// `worst = std::max(worst, std::fabs(got - want))` keeps worst where got is NaN.
TEST(Compare, NoTestLosesANaN) {
  const std::regex loses(R"((\w+) = (std::)?max\(\1, (std::)?f?abs\()");
  ASSERT_TRUE(std::regex_search("worst = std::max(worst, std::fabs(got.real(i) - want.real(i)));", loses));
  namespace fs = std::filesystem;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(in_source("tests")))) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    const std::string name = entry.path().filename();
    if (name == "compare_test.cpp" || name == "compare.cpp") continue;
    ++files;
    std::ifstream in(entry.path());
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (!line.contains("max(")) continue;  // most lines, sooner than the expression says so
      EXPECT_FALSE(std::regex_search(line, loses))
          << entry.path() << ":" << number << " drops NaN: use tests/support/compare.h\n"
          << line;
    }
  }
  EXPECT_GT(files, 100);
}

}  // namespace
}  // namespace rlx::testing
