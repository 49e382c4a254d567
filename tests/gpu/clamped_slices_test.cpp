// Parts of axes whose length a symbol names or only the run knows, on the device.
#include <gtest/gtest.h>

#include <limits>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"

namespace rlx::testing {
namespace {

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();

struct Bounds {
  int64_t start, end, step;
};
constexpr Bounds kBounds[] = {
    {0, 3, 1},   {-3, kLast, 1},        {1, -1, 1},       {kLast, kFirst, -1}, {5, 0, -2},
    {0, 100, 3}, {2, 1'000'000'000, 1}, {-2, kFirst, -3}, {1, INT32_MAX, 2}};

// As ONNX's text has it: both bounds are moved to the ends, then steps are made.
std::vector<double> sliced(const std::vector<double>& x, const Bounds& b) {
  const auto size = static_cast<int64_t>(x.size());
  const auto moved = [&](int64_t at, int64_t low, int64_t high) {
    if (at < 0) at += size;
    return at < low ? low : at > high ? high : at;
  };
  std::vector<double> out;
  if (size == 0) return out;
  const bool forwards = b.step > 0;
  const int64_t end = forwards ? moved(b.end, 0, size) : moved(b.end, -1, size - 1);
  for (int64_t i = moved(b.start, 0, forwards ? size : size - 1); forwards ? i < end : i > end; i += b.step)
    out.push_back(x[static_cast<size_t>(i)]);
  return out;
}

TEST(ClampedSlices, OfEveryLength) {
  OnnxModel model;
  model.graph.input("x", {"n"});
  for (size_t i = 0; i < std::size(kBounds); ++i) {
    const std::string k = std::to_string(i);
    model.graph.initializer("start" + k, Tensor::of<int64_t>({1}, {kBounds[i].start}));
    model.graph.initializer("end" + k, Tensor::of<int64_t>({1}, {kBounds[i].end}));
    model.graph.initializer("step" + k, Tensor::of<int64_t>({1}, {kBounds[i].step}));
    model.graph.initializer("axis" + k, Tensor::of<int64_t>({1}, {-1}));
    model.graph.node("Slice", {"x", "start" + k, "end" + k, "axis" + k, "step" + k}, {"part" + k});
    model.graph.node("Neg", {"part" + k}, {"y" + k}).output("y" + k);
  }
  constexpr int64_t kCapacity = 20;
  Graph with_capacity = onnx::parse(model.bytes()).graph;
  with_capacity.set_capacity("n", kCapacity);
  for (const Graph& graph : {onnx::parse(model.bytes()).graph, with_capacity}) {
    Executable exe = compile(graph, full_device());
    for (const int64_t size : {int64_t{17}, int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, kCapacity}) {
      std::vector<float> x;
      std::vector<double> negative;
      for (int64_t i = 0; i < size; ++i) {
        x.push_back(static_cast<float>(i + 1));
        negative.push_back(-static_cast<double>(i + 1));
      }
      const NamedTensors got = exe.run({{"x", Tensor::of<float>({size}, x)}});
      for (size_t i = 0; i < std::size(kBounds); ++i)
        EXPECT_EQ(got.at("y" + std::to_string(i)).doubles(), sliced(negative, kBounds[i]))
            << i << " of " << size;
    }
  }
}

// How many elements are not zero decides whether the parts fit.
TEST(ClampedSlices, OfSizesThatOnlyTheRunKnows) {
  OnnxModel model;
  model.graph.input("x", {1, 9}, ElementType::int32);
  for (const char* output : {"top", "few", "rest", "flat"}) model.graph.output(output, ElementType::int64);
  model.graph.initializer("sizes", Tensor::of<int64_t>({2}, {1, 2}));
  model.graph.initializer("zero", Tensor::of<int64_t>({1}, {0}))
      .initializer("two", Tensor::of<int64_t>({1}, {2}));
  model.graph.initializer("one", Tensor::of<int64_t>({1}, {1}))
      .initializer("all", Tensor::of<int64_t>({1}, {-1}));
  model.graph.node("NonZero", {"x"}, {"found"});
  model.graph.node("Slice", {"found", "zero", "two", "one"}, {"top"});
  model.graph.node("Split", {"found", "sizes"}, {"few", "rest"}, {{"axis", 1}});
  model.graph.node("Reshape", {"found", "all"}, {"flat"});
  Executable exe = compile(onnx::parse(model.bytes()).graph, full_device());
  const auto run = [&](const std::vector<int32_t>& x) {
    return exe.run({{"x", Tensor::of<int32_t>({1, 9}, x)}});
  };
  for (int again = 0; again < 2; ++again) {
    const NamedTensors got = run({0, 5, 0, 0, 5, 0, 0, 0, 5});
    EXPECT_EQ(got.at("top").integers(), (std::vector<int64_t>{0, 0, 1, 4}));
    EXPECT_EQ(got.at("few").integers(), (std::vector<int64_t>{0, 1}));
    EXPECT_EQ(got.at("rest").integers(), (std::vector<int64_t>{0, 0, 4, 8}));
    EXPECT_EQ(got.at("flat").integers(), (std::vector<int64_t>{0, 0, 0, 1, 4, 8}));
    // The error has the number of this run, also the second time.
    for (int twice = 0; twice < 2; ++twice)
      EXPECT_SAYS(run({0, 5, 0, 0, 5, 0, 0, 0, 0}), "reshape: [2, 2] has 4 elements, but [2, 3] has 6");
  }
}

// With at most two, one has another layout than both.
TEST(ClampedSlices, OfAtMostTwo) {
  OnnxModel model;
  model.graph.input("x", {1, 2}, ElementType::int32).output("sum", ElementType::int64);
  model.graph.output("flat", ElementType::int64).output("turned", ElementType::int64);
  model.graph.initializer("all", Tensor::of<int64_t>({1}, {-1}));
  model.graph.node("NonZero", {"x"}, {"found"}).node("Add", {"found", "found"}, {"sum"});
  model.graph.node("Reshape", {"found", "all"}, {"row"}).node("Neg", {"row"}, {"flat"});
  model.graph.node("Transpose", {"found"}, {"columns"}).node("Reshape", {"columns", "all"}, {"line"});
  model.graph.node("Neg", {"line"}, {"turned"});
  Executable exe = compile(onnx::parse(model.bytes()).graph, full_device());
  const auto run = [&](const std::vector<int32_t>& x) {
    return exe.run({{"x", Tensor::of<int32_t>({1, 2}, x)}});
  };
  for (int again = 0; again < 2; ++again) {
    NamedTensors got = run({0, 7});
    EXPECT_EQ(got.at("sum").integers(), (std::vector<int64_t>{0, 2}));
    EXPECT_EQ(got.at("flat").integers(), (std::vector<int64_t>{0, -1}));
    EXPECT_EQ(got.at("turned").integers(), (std::vector<int64_t>{0, -1}));
    got = run({7, 7});
    EXPECT_EQ(got.at("sum").integers(), (std::vector<int64_t>{0, 0, 0, 2}));
    EXPECT_EQ(got.at("flat").integers(), (std::vector<int64_t>{0, 0, 0, -1}));
    EXPECT_EQ(got.at("turned").integers(), (std::vector<int64_t>{0, 0, 0, -1}));
    EXPECT_EQ(run({0, 0}).at("sum").shape(), (std::vector<int64_t>{2, 0}));
  }
}

}  // namespace
}  // namespace rlx::testing
