// Slice, Split and Squeeze of axes whose length is a symbol, and what is done with the parts.
#include <gtest/gtest.h>

#include "ir/run_sizes.h"
#include "rlx/graph.h"
#include "tests/support/message.h"
#include "tests/support/one_node.h"

namespace rlx::testing {
namespace {

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();

// The elements that ONNX's text names: bounds are moved to the ends of the axis, then steps are made.
Reals sliced(int64_t size, int64_t start, int64_t end, int64_t step) {
  const auto moved = [&](int64_t at, int64_t low, int64_t high) {
    if (at < 0) at += size;
    return at < low ? low : at > high ? high : at;
  };
  Reals out;
  if (size == 0) return out;
  if (step > 0) {
    const int64_t stop = moved(end, 0, size);
    for (int64_t i = moved(start, 0, size); i < stop; i += std::min(step, size)) out.push_back(double(i));
  } else {
    const int64_t stop = moved(end, -1, size - 1);
    for (int64_t i = moved(start, 0, size - 1); i > stop; i += std::max(step, -size))
      out.push_back(double(i));
  }
  return out;
}

OneNode slice_node(int64_t start, int64_t end, int64_t step) {
  return OneNode("Slice")
      .input({"n"})
      .constant(longs({1}, {start}))
      .constant(longs({1}, {end}))
      .constant(longs({1}, {0}))
      .constant(longs({1}, {step}));
}

TEST(OnnxSlice, OfAnAxisThatASymbolNames) {
  const Ints bounds = {0,     1,  3,  16,  100,  1'000'000'000, INT32_MAX,
                       kLast, -1, -3, -17, -100, INT32_MIN,     kFirst};
  for (const int64_t start : bounds) {
    for (const int64_t end : bounds) {
      for (const int64_t step : {int64_t{1}, int64_t{3}, kLast, int64_t{-1}, int64_t{-2}, -kLast}) {
        const onnx::Model model = slice_node(start, end, step).load();
        for (const int64_t size : {0, 1, 2, 3, 17}) {
          const Graph g = bind_symbols(model.graph, {{"n", size}});
          ASSERT_EQ(run_reference(g, {{"x0", counting({size})}}).at("y0").real,
                    sliced(size, start, end, step))
              << start << ":" << end << ":" << step << " of " << size << " is "
              << model.graph.type(model.graph.outputs()[0].value).shape.text();
        }
      }
    }
  }
}

std::string shape_of(const OnnxModel& model, const std::string& output = "y") {
  const Graph g = onnx::parse(model.bytes()).graph;
  const auto it = std::ranges::find(g.outputs(), output, &Graph::Output::name);
  return g.type(it->value).shape.text();
}

TEST(OnnxSlice, ShapesOfPartsFitTogether) {
  EXPECT_EQ(output_shape(slice_node(0, 1'000'000'000, 1).load()).text(), "[min(1000000000,n)]");
  EXPECT_EQ(output_shape(slice_node(0, INT32_MAX, 1).load()).text(), "[n]");
  EXPECT_EQ(output_shape(slice_node(kFirst, kLast, 1).load()).text(), "[n]");
  EXPECT_EQ(output_shape(slice_node(-1, kFirst, -1).load()).text(), "[n]");
  EXPECT_EQ(output_shape(slice_node(2, 5, 1).load()).text(), "[-min(2,n)+min(5,n)]");
  OnnxModel model;
  model.graph.input("x", {"n", 3}).output("y").output("d").output("first");
  model.graph.initializer("zero", longs({1}, {0})).initializer("one", longs({1}, {1}));
  model.graph.initializer("minus", longs({1}, {-1})).initializer("end", longs({1}, {kLast}));
  model.graph.node("Slice", {"x", "zero", "one"}, {"head"}).node("Slice", {"x", "one", "end"}, {"tail"});
  model.graph.node("Slice", {"x", "zero", "minus"}, {"front"});
  model.graph.node("Concat", {"head", "tail"}, {"y"}, {{"axis", 0}});
  model.graph.node("Sub", {"tail", "front"}, {"d"}).node("Sub", {"x", "head"}, {"first"});
  EXPECT_EQ(shape_of(model, "y"), "[n, 3]");
  EXPECT_EQ(shape_of(model, "d"), "[-min(1,n)+n, 3]");
  EXPECT_EQ(shape_of(model, "first"), "[n, 3]");
  for (const int64_t size : {0, 1, 2, 5}) {
    const Graph g = bind_symbols(onnx::parse(model.bytes()).graph, {{"n", size}});
    const auto got = run_reference(g, {{"x", counting({size, 3})}});
    EXPECT_EQ(got.at("d").real, Reals(size > 0 ? (size - 1) * 3 : 0, 3.0));
    EXPECT_EQ(got.at("y").real, counting({size, 3}).doubles());
  }
}

// table[:n] beside something of length n: then it is n, as if it were not clamped, and nothing is added.
TEST(OnnxSlice, ATableOfPositionsHasTheLengthOfWhatItIsAddedTo) {
  OnnxModel model;
  model.graph.input("x", {"batch", "n", 2}).output("y").initializer("table", waves({512, 2}, 0.5));
  model.graph.initializer("zero", longs({1}, {0}));
  model.graph.node("Shape", {"x"}, {"n"}, {{"start", 1}, {"end", 2}});
  model.graph.node("Slice", {"table", "zero", "n"}, {"positions"});
  model.graph.node("Add", {"x", "positions"}, {"y"});
  const Graph g = onnx::parse(model.bytes()).graph;
  EXPECT_EQ(g.type(g.outputs()[0].value).shape.text(), "[batch, n, 2]");
  EXPECT_EQ(g.size(), 4) << to_text(g);  // x, table, slice, add
  EXPECT_SAYS(bind_symbols(g, {{"batch", 1}, {"n", 513}}), "outside the axis, which has length 512");
  // Where nothing needs that length, it is clamped.
  OnnxModel alone;
  alone.graph.input("x", {"n"}).output("y").initializer("table", counting({5}));
  alone.graph.initializer("zero", longs({1}, {0}));
  alone.graph.node("Shape", {"x"}, {"n"}).node("Slice", {"table", "zero", "n"}, {"y"});
  const Graph cut = onnx::parse(alone.bytes()).graph;
  for (const int64_t size : {0, 3, 5, 8}) {
    EXPECT_EQ(
        run_reference(bind_symbols(cut, {{"n", size}}), {{"x", counting({size})}, {"table", counting({5})}})
            .at("y")
            .real,
        sliced(5, 0, size, 1));
  }
}

// The first of the tokens, as one row: the product with weights needs it, so there must be one.
TEST(OnnxSlice, APartThatMeetsWeightsIsWhole) {
  OnnxModel model;
  model.graph.input("x", {"batch", "n", 4}).output("y").initializer("w", waves({8, 3}, 0.5));
  model.graph.initializer("from", longs({1}, {0})).initializer("to", longs({1}, {2}));
  model.graph.initializer("axis", longs({1}, {1}));
  model.graph.node("Slice", {"x", "from", "to", "axis"}, {"first"});
  model.graph.node("Flatten", {"first"}, {"flat"}).node("MatMul", {"flat", "w"}, {"y"});
  EXPECT_EQ(shape_of(model), "[batch, 3]");
  const Graph g = onnx::parse(model.bytes()).graph;
  EXPECT_NO_THROW(bind_symbols(g, {{"batch", 2}, {"n", 2}}));
  EXPECT_SAYS(bind_symbols(g, {{"batch", 2}, {"n", 1}}), "outside the axis, which has length 1");
}

// A window that moves by one: what is carried keeps its length.
TEST(OnnxSlice, ALoopMayMoveAWindow) {
  OnnxGraph body;
  body.input("i", {}, ElementType::int64).input("going", {}, ElementType::boolean).input("a", {"n"});
  body.initializer("one", longs({1}, {1})).initializer("end", longs({1}, {kLast}));
  body.initializer("new", floats({1}, {7}));
  body.node("Slice", {"a", "one", "end"}, {"rest"}).node("Concat", {"rest", "new"}, {"next"}, {{"axis", 0}});
  body.node("Identity", {"going"}, {"go_on"});
  body.output("go_on", ElementType::boolean).output("next");
  const OneNode loop =
      OneNode("Loop", {{"body", body}}).constant(Tensor::scalar<int64_t>(2)).absent().input({"n"});
  EXPECT_EQ(loop.y({{"n", 3}}, {{"x2", counting({3})}}).real, (Reals{2, 7, 7}));
}

TEST(OnnxSplit, TheSizesOfTheRunMayFit) {
  const OneNode split =
      OneNode("Split", {{"axis", 0}}).input({"n", 2}).constant(longs({2}, {2, 3})).outputs({true, true});
  EXPECT_EQ(output_shape(split.load()).text(), "[2, 2]");
  EXPECT_EQ(split.run({{"n", 5}}, {{"x0", counting({5, 2})}}).at("y1").real, (Reals{4, 5, 6, 7, 8, 9}));
  EXPECT_SAYS(split.run({{"n", 7}}, {{"x0", counting({7, 2})}}), "reshape: [7, 2] has 14 elements");
}

TEST(OnnxControlFlow, ALoopWithoutTripsStacksNothing) {
  OnnxGraph body;
  body.input("i", {}, ElementType::int64).input("going", {}, ElementType::boolean).input("a", {2});
  body.node("Add", {"a", "a"}, {"next"}).node("Less", {"i", "i"}, {"go_on"}).node("Relu", {"a"}, {"each"});
  body.output("go_on", ElementType::boolean).output("next").output("each");
  const auto run = [&](int64_t trips, bool condition) {
    return OneNode("Loop", {{"body", body}})
        .constant(Tensor::scalar(trips))
        .constant(Tensor::scalar(condition))
        .value(floats({2}, {1, -1}))
        .outputs({true, true})
        .run();
  };
  for (const auto& [trips, condition] : {std::pair(int64_t{0}, true), {-554050781184, true}, {5, false}}) {
    const auto y = run(trips, condition);
    EXPECT_EQ(y.at("y0").real, (Reals{1, -1}));
    EXPECT_EQ(y.at("y1").dims, (Ints{0, 2}));
  }
  EXPECT_EQ(run(5, true).at("y1").real, (Reals{1, 0}));
}

TEST(OnnxFiles, WhatCannotBeBuiltIsAFaultOfTheFile) {
  OnnxModel model;
  model.graph.input("x", {3}).output("y").node("Add", {"x", "w"}, {"y"});
  model.graph.initializer("w", Tensor::zeros(DType::f32, {0, int64_t{1} << 40, int64_t{1} << 40}));
  try {
    onnx::parse(model.bytes());
    FAIL() << "it was imported";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_file) << e.what();
  }
}

}  // namespace
}  // namespace rlx::testing
