// Functions that are made of other ops (masks, counts, compress), and ops that find things, on values that
// random samples do not have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/run_sizes.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

using Ints = std::vector<int64_t>;

NamedTensors run(const Graph& g, const NamedTensors& inputs = {}, const Device& device = full_device()) {
  return compile(g, device).run(inputs);
}

TEST(Selection, CutsTriangles) {
  Graph g;
  const Value x = g.input("x", DType::i32, {2, 3});
  g.output("upper", triu(x));
  g.output("upper1", triu(x, 1));
  g.output("lower", tril(x));
  g.output("lower-1", tril(x, -1));
  g.output("eye", eye(g, 2, 3, 1, DType::i32));
  const NamedTensors y = run(g, {{"x", Tensor::of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6})}});
  EXPECT_EQ(y.at("upper").integers(), (Ints{1, 2, 3, 0, 5, 6}));
  EXPECT_EQ(y.at("upper1").integers(), (Ints{0, 2, 3, 0, 0, 6}));
  EXPECT_EQ(y.at("lower").integers(), (Ints{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(y.at("lower-1").integers(), (Ints{0, 0, 0, 4, 0, 0}));
  EXPECT_EQ(y.at("eye").integers(), (Ints{0, 1, 0, 0, 0, 1}));
  EXPECT_THROW(triu(g.input("v", DType::i32, {3})), Error);
}

// Overlaps and scores that are the bounds themselves, equal scores, corners in any order.
TEST(Selection, ChoosesBoxesAtTheBounds) {
  // The first two overlap by a half, the third is the second, the others lie apart and have the same score.
  const Tensor corners =
      Tensor::of<float>({1, 5, 4}, {0, 0, 1, 1, 0, 0, 1, 2, 1, 2, 0, 0, 5, 5, 6, 6, 8, 8, 9, 9});
  const Tensor centers = Tensor::of<float>(
      {1, 5, 4}, {0.5, 0.5, 1, 1, 0.5, 1, 1, 2, 0.5, 1, 1, 2, 5.5, 5.5, 1, 1, 8.5, 8.5, 1, 1});
  const Tensor scores = Tensor::of<float>({1, 1, 5}, {0.875, 0.75, 0.625, 0.5, 0.5});
  struct Case {
    SuppressionOptions options;
    Ints boxes;
  };
  const std::vector<Case> cases = {{{.most = 5, .overlap = 0.5}, {0, 1, 3, 4}},
                                   {{.most = 5, .overlap = 0.5, .score = 0.5}, {0, 1}},
                                   {{.most = 5, .overlap = 0.4375}, {0, 3, 4}},
                                   {{.most = 3, .overlap = 0.5, .score = 0.25}, {0, 1, 3}},
                                   {{.most = 5, .overlap = 1}, {0, 1, 2, 3, 4}}};
  Graph g;
  const Value c = g.input("corners", DType::f32, {1, 5, 4});
  const Value m = g.input("centers", DType::f32, {1, 5, 4});
  const Value s = g.input("scores", DType::f32, {1, 1, 5});
  for (size_t i = 0; i < cases.size(); ++i) {
    SuppressionOptions o = cases[i].options;
    for (const char* boxes : {" corners", " centers"}) {
      o.centers = boxes == std::string_view(" centers");
      const ChosenBoxes chosen = non_max_suppression(o.centers ? m : c, s, o);
      g.output(std::to_string(i) + boxes, chosen.selected);
      g.output(std::to_string(i) + boxes + " count", chosen.count);
    }
  }
  const NamedTensors in = {{"corners", corners}, {"centers", centers}, {"scores", scores}};
  const NamedTensors got = run(g, in);
  const auto reference = run_reference(g, in);
  for (size_t i = 0; i < cases.size(); ++i) {
    Ints want;
    for (const int64_t box : cases[i].boxes) want.insert(want.end(), {0, 0, box});
    want.resize(static_cast<size_t>(3 * cases[i].options.most));  // the room for all that could be chosen
    for (const char* boxes : {" corners", " centers"}) {
      const std::string name = std::to_string(i) + boxes;
      EXPECT_EQ(got.at(name).integers(), want) << name;
      EXPECT_EQ(got.at(name + " count").integer(0), std::ssize(cases[i].boxes)) << name;
      EXPECT_EQ(reference.at(name).ints, want) << name;
      EXPECT_EQ(reference.at(name + " count").ints, (Ints{std::ssize(cases[i].boxes)})) << name;
    }
  }
}

TEST(Selection, MarksIndices) {
  Graph g;
  const Value on = g.constant(Tensor::of<float>({}, {5}));
  const Value off = g.constant(Tensor::of<float>({}, {-1}));
  const Value indices = g.input("i", DType::i64, {4});
  g.output("last", one_hot(indices, 3, on, off));
  g.output("first", one_hot(indices, 3, on, off, 0));
  const NamedTensors y = run(g, {{"i", Tensor::of<int64_t>({4}, {2, -3, 3, 0})}});
  const std::vector<double> want = {-1, -1, 5, 5, -1, -1, -1, -1, -1, 5, -1, -1};
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ(y.at("last").real(3 * i + j), want[static_cast<size_t>(3 * i + j)]);
      EXPECT_EQ(y.at("first").real(4 * j + i), want[static_cast<size_t>(3 * i + j)]);
    }
  }
}

TEST(Selection, ReversesSequences) {
  Graph g;
  g.output("y", reverse_sequence(g.input("x", DType::i32, {2, 4}), g.input("n", DType::i64, {2}), 1, 0));
  const NamedTensors y = run(g, {{"x", Tensor::of<int32_t>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})},
                                 {"n", Tensor::of<int64_t>({2}, {3, 1})}});
  EXPECT_EQ(y.at("y").integers(), (Ints{3, 2, 1, 4, 5, 6, 7, 8}));
}

TEST(Selection, KeepsWhatTheConditionSays) {
  Graph g;
  const Value x = g.input("x", DType::i32, {2, 3});
  const Selected found = compress(x, g.input("c", DType::bool_, {3}), 1, "kept");
  g.output("y", found.values);
  g.output("n", found.count);
  const NamedTensors y = run(g, {{"x", Tensor::of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6})},
                                 {"c", Tensor::of<bool>({3}, {true, false, true})}});
  EXPECT_EQ(y.at("y").shape(), (Ints{2, 2}));
  EXPECT_EQ(y.at("y").integers(), (Ints{1, 3, 4, 6}));
  EXPECT_EQ(y.at("n").integers(), Ints{2});
}

TEST(Selection, Counts) {
  Graph g;
  const Value x = g.input("x", DType::i32, {7});
  g.output("counts", bincount(x, 4));
  g.output("weighted", bincount(x, 4, g.input("w", DType::f32, {7})));
  const NamedTensors y = run(g, {{"x", Tensor::of<int32_t>({7}, {3, 0, 3, -1, 4, 1, 3})},
                                 {"w", Tensor::of<float>({7}, {1, 2, 4, 8, 16, 32, 64})}});
  EXPECT_EQ(y.at("counts").integers(), (Ints{1, 1, 0, 3}));
  EXPECT_EQ(y.at("weighted").span<float>()[0], 2);
  EXPECT_EQ(y.at("weighted").span<float>()[1], 32);
  EXPECT_EQ(y.at("weighted").span<float>()[2], 0);
  EXPECT_EQ(y.at("weighted").span<float>()[3], 69);
}

// As numpy.histogram(x, 4, (0, 2)).
TEST(Selection, CountsIntervals) {
  Graph g;
  g.output("y", histogram(g.input("x", DType::f32, {9}), 4, 0, 2));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const NamedTensors y =
      run(g, {{"x", Tensor::of<float>({9}, {0, 0.5, 2, 2.1F, -0.1F, 1.99F, 0.49F, 1, nan})}});
  EXPECT_EQ(y.at("y").integers(), (Ints{2, 1, 1, 2}));
  EXPECT_THROW(histogram(g.input("z", DType::f32, {1}), 0, 0, 1), Error);
}

TEST(Selection, FindsPlacesInSortedRows) {
  std::mt19937 random(5);
  constexpr int64_t kRows = 3;
  for (const Device* device : {&full_device(), &small_device()}) {
    for (const int64_t n : {1, 17, 2000, 300007}) {
      std::vector<int32_t> sorted(static_cast<size_t>(kRows * n));
      for (int32_t& v : sorted) v = static_cast<int32_t>(random() % 5000);
      for (int64_t r = 0; r < kRows; ++r)
        std::ranges::sort(sorted.begin() + r * n, sorted.begin() + (r + 1) * n);
      std::vector<int32_t> values(static_cast<size_t>(kRows) * 40);
      for (int32_t& v : values) v = static_cast<int32_t>(random() % 5002) - 1;
      Graph g;
      const Value rows = g.input("rows", DType::i32, {kRows, n});
      const Value wanted = g.input("values", DType::i32, {kRows, 40});
      g.output("left", searchsorted(rows, wanted));
      g.output("right", searchsorted(rows, wanted, true));
      const NamedTensors y = run(g,
                                 {{"rows", Tensor::of<int32_t>({kRows, n}, sorted)},
                                  {"values", Tensor::of<int32_t>({kRows, 40}, values)}},
                                 *device);
      for (int64_t i = 0; i < kRows * 40; ++i) {
        const auto begin = sorted.begin() + i / 40 * n;
        const int32_t v = values[static_cast<size_t>(i)];
        ASSERT_EQ(y.at("left").integer(i), std::lower_bound(begin, begin + n, v) - begin) << n;
        ASSERT_EQ(y.at("right").integer(i), std::upper_bound(begin, begin + n, v) - begin) << n;
      }
    }
  }
}

TEST(Selection, PutsNanLastAmongSortedRows) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Graph g;
  const Value rows = g.constant(Tensor::of<float>({5}, {-inf, 1, inf, nan, nan}));
  g.output("y", searchsorted(rows, g.input("x", DType::f32, {4})));
  g.output("z", searchsorted(rows, g.input("x2", DType::f32, {4}), true));
  const Tensor x = Tensor::of<float>({4}, {nan, inf, 1, -inf});
  const NamedTensors y = run(g, {{"x", x}, {"x2", x}});
  EXPECT_EQ(y.at("y").integers(), (Ints{3, 2, 1, 0}));
  EXPECT_EQ(y.at("z").integers(), (Ints{5, 3, 2, 1}));
}

TEST(Selection, CountsNanAsOneElement) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool sorted : {true, false}) {
    Graph g;
    const auto [values, first, inverse, counts, count] =
        unique(g.input("x", DType::f32, {7}), {.sorted = sorted, .symbol = "different"});
    g.output("values", values);
    g.output("first", first);
    g.output("inverse", inverse);
    g.output("counts", counts);
    g.output("count", count);
    const NamedTensors y = run(g, {{"x", Tensor::of<float>({7}, {2, nan, -0.0F, nan, 2, 0, 1})}});
    EXPECT_EQ(y.at("count").integers(), Ints{4});
    EXPECT_EQ(y.at("first").integers(), sorted ? (Ints{2, 6, 0, 1}) : (Ints{0, 1, 2, 6}));
    EXPECT_EQ(y.at("inverse").integers(), sorted ? (Ints{2, 3, 0, 3, 2, 0, 1}) : (Ints{0, 1, 2, 1, 0, 2, 3}));
    EXPECT_EQ(y.at("counts").integers(), sorted ? (Ints{2, 1, 2, 2}) : (Ints{2, 2, 2, 1}));
    EXPECT_TRUE(std::isnan(y.at("values").real(sorted ? 3 : 1)));
  }
}

}  // namespace
}  // namespace rlx::testing
