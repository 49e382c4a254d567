// Comparison operators, where with numbers, and parts of values.
#include <gtest/gtest.h>

#include <limits>

#include "ir/reference.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/message.h"

namespace rlx {
namespace {

// x is 0, 1, 2 ... in the shape [3, 4, 5].
class Indexing : public ::testing::Test {
 protected:
  RefTensor result(Value y) {
    g_.output("y", y);
    std::vector<double> numbers(60);
    for (size_t i = 0; i < 60; ++i) numbers[i] = static_cast<double>(i);
    return run_reference(g_, {{"x", Tensor::from_doubles(DType::f32, {3, 4, 5}, numbers)}}).at("y");
  }
  void expect(Value y, const std::vector<int64_t>& dims, const std::vector<double>& numbers) {
    const RefTensor got = result(y);
    EXPECT_EQ(std::vector<int64_t>(got.dims.begin(), got.dims.end()), dims);
    const Tensor t = got.to_tensor();
    ASSERT_EQ(t.elements(), std::ssize(numbers));
    for (int64_t i = 0; i < t.elements(); ++i) EXPECT_EQ(t.real(i), numbers[static_cast<size_t>(i)]) << i;
  }

  Graph g_;
  Value x_ = g_.input("x", DType::f32, {3, 4, 5});
};

TEST_F(Indexing, ANumberRemovesItsAxis) { expect(x_[1, 2], {5}, {30, 31, 32, 33, 34}); }

TEST_F(Indexing, NumbersCountFromTheEnd) { expect(x_[-1, -1, -1], {}, {59}); }

TEST_F(Indexing, RangesKeepTheirAxes) { expect(x_[Range{1, 3}, 0, Range{-2}], {2, 2}, {23, 24, 43, 44}); }

TEST_F(Indexing, RangesEndWithTheAxis) { expect(x_[0, Range{3, 100}, Range{0, 1}], {1, 1}, {15}); }

TEST_F(Indexing, RangesMayBeEmpty) { expect(x_[Range{2, 1}, 0, 0], {0}, {}); }

TEST_F(Indexing, StepsGoForwardsAndBackwards) { expect(x_[0, 0, Range{.step = 2}], {3}, {0, 2, 4}); }

TEST_F(Indexing, BackwardsFromTheEnd) {
  expect(x_[0, Range{.step = -3}, Range{.first = 3, .last = 0, .step = -2}], {2, 2}, {18, 16, 3, 1});
}

TEST_F(Indexing, FarPlacesAndLongSteps) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  expect(x_[0, Range{-most - 1, most, most}, Range{.step = -most - 1}], {1, 1}, {4});
}

TEST_F(Indexing, EllipsisStandsForTheOtherAxes) { expect(x_[ellipsis, 4][0], {4}, {4, 9, 14, 19}); }

TEST_F(Indexing, NewAxesAreOfSizeOne) { expect(x_[new_axis, 0, new_axis, 1], {1, 1, 5}, {5, 6, 7, 8, 9}); }

TEST_F(Indexing, MistakesAreNamed) {
  EXPECT_SAYS(x_[3], "the index 3 is outside axis 0 of [3, 4, 5]");
  EXPECT_SAYS((x_[0, 0, 0, 0]), "4 indices were given for [3, 4, 5], which has 3 axes");
  EXPECT_SAYS((x_[ellipsis, ellipsis]), "2 times `ellipsis` in one index");
  EXPECT_SAYS((x_[Range{.step = 0}]), "a Range has the step 0");
}

TEST_F(Indexing, SymbolsStayOpen) {
  const Value s = g_.input("s", DType::f32, {"n", 2});
  EXPECT_EQ((s[Range{1}].shape()), (Shape{Dim("n") - Dim::min(1, Dim("n")), 2}));
  EXPECT_EQ((s[-1].shape()), (Shape{2}));
  EXPECT_EQ((s[Range{.step = 2}].shape()), (Shape{Dim("n").ceil_div(2), 2}));
  EXPECT_EQ((s[Range{.step = -1}].shape()), (Shape{"n", 2}));
  EXPECT_SAYS((s[Range{.last = 0, .step = -1}]), "needs a size that is known; axis 0 of [n, 2] has none");
}

TEST_F(Indexing, Comparisons) {
  const Value row = x_[0, 0];
  expect(where(row < 2, 1, 0) + 2 * where(row == 3, 1, 0) + 4 * where(3 <= row, row, 0), {5},
         {1, 1, 0, 14, 16});
}

TEST_F(Indexing, TheOtherComparisons) {
  const Value row = x_[0, 0];
  expect(where(row > 3, 1, 0) + where(row >= row, 2, 0) + where(row != 4, 4, 0), {5}, {6, 6, 6, 6, 3});
}

TEST_F(Indexing, ComparisonsAreNoConditions) {
  static_assert(!std::constructible_from<bool, Comparison>);
  EXPECT_EQ((x_ == x_).dtype(), DType::bool_);
  auto mask = x_ < 1;
  mask = logical_not(mask);
  static_assert(!std::constructible_from<Index, bool>);
}

TEST_F(Indexing, WhereTakesTwoNumbers) {
  EXPECT_EQ(where(x_ < 1, 1, 0).dtype(), DType::f32);
  EXPECT_EQ(where(x_ < 1, cast(x_, DType::i32), 7).dtype(), DType::i32);
}

}  // namespace
}  // namespace rlx
