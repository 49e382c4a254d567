// The different slices of a tensor along an axis, beside a sorted list of vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/format.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/run_sizes.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

// NaN is greater than any number and equal to itself; -0 equals 0.
struct Before {
  bool operator()(const std::vector<double>& a, const std::vector<double>& b) const {
    return std::ranges::lexicographical_compare(a, b, [](double x, double y) {
      if (std::isnan(x)) return false;
      return std::isnan(y) || x < y;
    });
  }
};

struct Expected {
  std::vector<std::vector<double>> values;
  std::vector<int64_t> first, inverse, counts;
};

Expected unique_rows(const std::vector<std::vector<double>>& rows, bool sorted) {
  std::map<std::vector<double>, int64_t, Before> numbers;  // of values, by first occurrence
  std::vector<std::vector<double>> seen;
  for (const auto& row : rows) {
    if (numbers.emplace(row, std::ssize(seen)).second) seen.push_back(row);
  }
  Expected out;
  std::vector<int64_t> order;
  for (const auto& [row, number] : numbers) order.push_back(number);
  if (!sorted) std::ranges::sort(order);
  out.counts.resize(seen.size());
  for (const int64_t number : order) {
    out.values.push_back(seen[static_cast<size_t>(number)]);
    const auto at = std::ranges::find_if(rows, [&](const auto& r) { return numbers.at(r) == number; });
    out.first.push_back(at - rows.begin());
  }
  for (const auto& row : rows) {
    const auto place = std::ranges::find(order, numbers.at(row)) - order.begin();
    out.inverse.push_back(place);
    ++out.counts[static_cast<size_t>(place)];
  }
  return out;
}

// Rows that are often equal, or differ in one element, which is the first, the last, or somewhere between.
std::vector<std::vector<double>> rows_of(int64_t count, int64_t length, DType dtype) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> out;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<double>& row = out.emplace_back(static_cast<size_t>(length));
    for (size_t j = 0; j < row.size(); ++j) row[j] = static_cast<double>(j % 5);
    const int64_t kind = i * 7 % 11;
    if (length == 0 || kind > 7) continue;
    const size_t at = static_cast<size_t>(kind * (length - 1) / 7);
    const double odd = is_float(dtype) ? (kind % 3 == 0 ? kNan : kind % 3 == 1 ? -kInfinity : -0.0) : 7.0;
    row[at] = i % 2 == 0 ? odd : 3;
  }
  return out;
}

void expect_unique(const Device& device, int64_t count, int64_t length, DType dtype, bool sorted) {
  SCOPED_TRACE(formatted("{} rows of {} {}, sorted {}", count, length, to_string(dtype), sorted));
  const std::vector<std::vector<double>> rows = rows_of(count, length, dtype);
  Graph g;
  const UniqueValues found =
      unique(g.input("x", dtype, {count, length}), {.axis = 0, .sorted = sorted, .symbol = "different"});
  g.output("y0", found.values);
  g.output("y1", found.first);
  g.output("y2", found.inverse);
  g.output("y3", found.counts);
  std::vector<double> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  Executable exe = compile(g, device);
  const NamedTensors got = exe.run({{"x", Tensor::from_doubles(dtype, {count, length}, flat)}});
  const Expected want = unique_rows(rows, sorted);
  ASSERT_EQ(got.at("y0").shape(), (std::vector<int64_t>{std::ssize(want.values), length}));
  const std::vector<double> values = got.at("y0").doubles();
  size_t at = 0;
  for (const auto& row : want.values) {
    for (const double v : row) {
      const double value = values[at++];
      ASSERT_TRUE(value == v || (std::isnan(value) && std::isnan(v))) << value << " and " << v;
    }
  }
  EXPECT_EQ(got.at("y1").integers(), want.first);
  EXPECT_EQ(got.at("y2").integers(), want.inverse);
  EXPECT_EQ(got.at("y3").integers(), want.counts);
  EXPECT_LT(exe.dispatch_count(), 120);
}

TEST(Unique, FindsSlicesOfAnyLength) {
  for (const bool sorted : {true, false}) {
    for (const int64_t length : {1, 3, 5, 256, 257, 4000})
      expect_unique(full_device(), 23, length, DType::f32, sorted);
  }
  expect_unique(full_device(), 1000, 6, DType::i32, true);
  expect_unique(full_device(), 2, 70000, DType::f32, true);
}

TEST(Unique, FindsThemWithSmallBindings) {
  for (const int64_t length : {5, 4000}) expect_unique(small_device(), 23, length, DType::f32, true);
  expect_unique(small_device(), 3000, 9, DType::i32, false);
}

TEST(Unique, TakesOneSliceAndSlicesWithoutElements) {
  expect_unique(full_device(), 1, 300, DType::f32, true);
  expect_unique(full_device(), 1, 1, DType::i32, false);
  expect_unique(full_device(), 3, 0, DType::f32, true);  // all equal, as in NumPy
  expect_unique(full_device(), 1, 0, DType::i32, false);
}

}  // namespace
}  // namespace rlx::testing
