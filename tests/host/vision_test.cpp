// Pools, norms of images, and the passes that make them part of convolutions.
#include <gtest/gtest.h>

#include <sstream>

#include "ir/reference.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/pooling.h"
#include "tests/support/compare.h"
#include "tests/support/fusion_cases.h"
#include "tests/support/message.h"
#include "tests/support/vision_cases.h"

namespace rlx::testing {
namespace {

Graph graph_of(const std::string& body) { return parse_graph("graph g {\n" + body + "\n}"); }

// --- PyTorch ---

TEST(Vision, ReferenceIsPyTorchs) {
  const std::vector<VisionCase> cases = vision_cases();
  ASSERT_GT(cases.size(), 30u);
  for (const VisionCase& c : cases) {
    SCOPED_TRACE(c.name);
    const auto got = run_reference(c.graph, c.inputs);
    const char* const names[] = {"y", "z"};
    ASSERT_EQ(got.size(), c.results.size());
    for (size_t i = 0; i < c.results.size(); ++i) {
      // PyTorch's results were rounded to f32, which has room for one more rounding.
      EXPECT_TRUE(
          close(got.at(names[i]).to_tensor(), RefTensor::from(c.results[i]), {.ulps = 2, .scale = 8}));
    }
  }
}

// --- shapes ---

std::string pooled(Shape x, std::vector<int64_t> kernel, const PoolOptions& options = {}) {
  Graph g;
  return max_pool(g.input("x", DType::f32, std::move(x)), std::move(kernel), options).shape().text();
}

TEST(Pool, Shapes) {
  EXPECT_EQ(pooled({2, 3, 9}, {3}), "[2, 3, 7]");
  EXPECT_EQ(pooled({2, 3, 9, 8}, {3, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}), "[2, 3, 5, 4]");
  EXPECT_EQ(pooled({2, 3, 9, 8}, {2, 3}, {.dilations = {4, 2}}), "[2, 3, 5, 4]");
  EXPECT_EQ(pooled({2, 9, 8, 3}, {3, 2}, {.layout = ConvLayout::channels_last}), "[2, 7, 7, 3]");
  EXPECT_EQ(pooled({1, 1, 6}, {3}, {.strides = {2}, .ceil_mode = true}), "[1, 1, 3]");
  // The last window would begin in the padding behind x, or past it.
  EXPECT_EQ(pooled({1, 1, 2}, {1}, {.strides = {2}, .ceil_mode = true}), "[1, 1, 1]");
  EXPECT_EQ(pooled({1, 1, 4}, {2}, {.strides = {2}, .pads = {0, 1}, .ceil_mode = true}), "[1, 1, 2]");
  EXPECT_EQ(pooled({1, 1, 4}, {2}, {.strides = {3}, .pads = {1, 1}, .ceil_mode = true}), "[1, 1, 2]");
}

TEST(Pool, SymbolicShapes) {
  EXPECT_EQ(pooled({"n", 3, "h"}, {3}, {.pads = {1, 1}}), "[n, 3, h]");
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 1, "h"});
  g.output("y", max_pool(x, {2}, {.strides = {2}, .pads = {0, 1}, .ceil_mode = true}));
  for (const auto& [length, windows] : {std::pair(4, 2), {5, 3}, {6, 3}}) {
    const Graph bound = bind_symbols(g, {{"h", length}});
    EXPECT_EQ(bound.type(bound.outputs()[0].value).shape[2].value(), windows) << length;
  }
}

TEST(Pool, Mistakes) {
  EXPECT_SAYS(pooled({1, 2, 3, 4}, {2}), "`kernel` has 1 numbers, but x [1, 2, 3, 4] has 2 spatial axes");
  EXPECT_SAYS(pooled({1, 2, 3}, {0}), "`kernel` contains 0; its numbers must be at least 1");
  EXPECT_SAYS(pooled({1, 2, 3}, {4}), "max_pool: the kernel does not fit along spatial axis 0");
  EXPECT_SAYS(pooled({1, 2, 3}, {1}, {.strides = {0}}), "max_pool: `strides` contains 0");
  EXPECT_SAYS(pooled({2, 3}, {}), "it must have 1 to 3 spatial axes, so a rank of 3 to 5");
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 6, 5});
  EXPECT_SAYS(group_norm(x, 4), "group_norm: 6 channels cannot be divided evenly among 4 groups");
  EXPECT_SAYS(group_norm(x, 2, g.input("a", DType::f32, {2})),
              "gamma has the shape [2]; 6 channels need [6]");
  EXPECT_SAYS(batch_norm(x, g.input("m", DType::f32, {5}), g.input("v", DType::f32, {6})),
              "mean has the shape [5]; the 6 channels of x [2, 6, 5] need [6]");
  EXPECT_SAYS(adaptive_avg_pool(x, {2, 2}), "`size` has 2 numbers and x the shape [2, 6, 5]");
  EXPECT_SAYS(max_unpool(x, g.input("i", DType::i64, {2, 6, 4}), {9}), "they must be equal");
  EXPECT_SAYS(layer_norm(x, g.input("c", DType::f32, {5}), {}, 1e-5, 1, true),
              "it must have [6], that of the input along axis 1");
}

// --- passes ---

// The ops of the graph that a pass makes, in order, without leaves.
template <class Pass>
std::string ops_after(Pass pass, const std::string& body) {
  std::string out;
  for (const Node& n : pass(graph_of(body)).nodes()) {
    if (n.op->is_leaf()) continue;
    out += (out.empty() ? "" : " ") + std::string(n.op->name());
    for (const auto& [name, value] : attributes(*n.op)) {
      if (name == "pads" || name == "count_include_pad") out += " " + name + "=" + attribute_text(value);
    }
  }
  return out;
}

std::string after_pads(const std::string& pad, const std::string& op, const std::string& before = "") {
  return ops_after(fold_pads, "%x = input : f32[1, 2, 8, 9]\n%w = param : f32[3, 2, 3, 3]\n" + before +
                                  "%p = pad(" + (before.empty() ? "%x" : "%r") + ") {" + pad +
                                  "}\n%y = " + op + "\noutput y = %y");
}

TEST(FoldPads, ZerosBecomePaddingOfConvolutionsAndMeans) {
  const std::string zeros = "before=[0,0,1,2], after=[0,0,3,0]";
  EXPECT_EQ(after_pads(zeros, "conv(%p, %w)"), "conv pads=[1, 2, 3, 0]");
  EXPECT_EQ(after_pads(zeros, "conv(%p, %w) {pads=[1,1,1,1]}"), "conv pads=[2, 3, 4, 1]");
  EXPECT_EQ(after_pads(zeros, "avg_pool(%p) {kernel=[4,3]}"),
            "avg_pool pads=[1, 2, 3, 0] count_include_pad=true");
  EXPECT_EQ(after_pads(zeros, "sum_pool(%p) {kernel=[4,3]}"), "sum_pool pads=[1, 2, 3, 0]");
  EXPECT_EQ(after_pads("before=[0,0,1,2], after=[0,0,3,0], value=-inf", "max_pool(%p) {kernel=[4,3]}"),
            "max_pool pads=[1, 2, 3, 0]");
  // Nothing is below zero there.
  EXPECT_EQ(after_pads(zeros, "max_pool(%p) {kernel=[4,3]}", "%r = relu(%x)\n"),
            "relu max_pool pads=[1, 2, 3, 0]");
}

TEST(FoldPads, WhatCountsOtherwiseStays) {
  const std::string zeros = "before=[0,0,1,2], after=[0,0,3,0]";
  EXPECT_EQ(after_pads("before=[0,0,1,2], after=[0,0,3,0], value=1", "conv(%p, %w)"), "pad conv");
  EXPECT_EQ(after_pads("before=[0,0,1,2], after=[0,0,3,0], mode=\"edge\"", "conv(%p, %w)"), "pad conv");
  EXPECT_EQ(after_pads("before=[0,0,-1,2], after=[0,0,3,0]", "conv(%p, %w)"), "pad conv");
  EXPECT_EQ(after_pads("before=[1,0,0,0], after=[0,0,0,0]", "conv(%p, %w)"), "pad conv");
  EXPECT_EQ(after_pads(zeros, "max_pool(%p) {kernel=[4,3]}"), "pad max_pool");
  // A window of the pad alone, whose largest is 0: before x, after it, or on both sides of a short one.
  EXPECT_EQ(after_pads(zeros, "max_pool(%p) {kernel=[4,2]}", "%r = relu(%x)\n"), "relu pad max_pool");
  EXPECT_EQ(after_pads(zeros, "max_pool(%p) {kernel=[3,3]}", "%r = relu(%x)\n"), "relu pad max_pool");
  EXPECT_EQ(after_pads(zeros, "max_pool(%p) {kernel=[2,3], dilations=[9,1]}", "%r = relu(%x)\n"),
            "relu pad max_pool");
  EXPECT_EQ(after_pads(zeros, "max_pool(%p) {kernel=[2,3], dilations=[8,1]}", "%r = relu(%x)\n"),
            "relu max_pool pads=[1, 2, 3, 0]");
  EXPECT_EQ(after_pads(zeros, "avg_pool(%p) {kernel=[4,3], pads=[1,1,1,1]}"),
            "pad avg_pool pads=[1, 1, 1, 1]");
  EXPECT_EQ(after_pads(zeros, "sum_pool(%p) {kernel=[4,3], strides=[2,2], ceil_mode=true}"), "pad sum_pool");
  EXPECT_EQ(after_pads("before=[0,0,1,2], after=[0,0,3,0], value=-inf",
                       "max_pool(%p) {kernel=[4,3], indices=\"plane\"}"),
            "pad max_pool");
}

std::string folded(const std::string& leaves, const std::string& rest) {
  return ops_after(
      fold_batch_norm,
      leaves + "%m = param : f32[3]\n%v = param : f32[3]\n%g = param : f32[3]\n" + rest + "\noutput y = %y");
}

TEST(FoldBatchNorm, ScalesWeightsOnce) {
  const std::string conv_leaves = "%x = input : f32[1, 2, 8, 9]\n%w = param : f32[3, 2, 3, 3]\n";
  const std::string terms = "add rsqrt mul mul neg";
  EXPECT_EQ(folded(conv_leaves, "%c = conv(%x, %w)\n%y = batch_norm(%c, %m, %v, %g)"),
            terms + " reshape mul conv");
  EXPECT_EQ(folded(conv_leaves, "%c = conv(%x, %w, %m)\n%y = batch_norm(%c, %m, %v, %g, %m)"),
            "add rsqrt mul mul sub reshape mul mul add conv");
  EXPECT_EQ(folded("%x = input : f32[4, 2]\n%w = param : f32[2, 3]\n",
                   "%c = matmul(%x, %w)\n%y = batch_norm(%c, %m, %v, %g)"),
            terms + " reshape mul matmul add");
}

TEST(FoldBatchNorm, OnlyWhereItIsTheSame) {
  const std::string leaves = "%x = input : f32[1, 2, 8, 9]\n%w = param : f32[3, 2, 3, 3]\n";
  const std::string norm = "%y = batch_norm(%c, %m, %v, %g)";
  EXPECT_EQ(
      folded("%x = input : f32[1, 2, 8, 9]\n%w = input : f32[3, 2, 3, 3]\n", "%c = conv(%x, %w)\n" + norm),
      "conv batch_norm");
  EXPECT_EQ(
      folded("%x = input : f16[1, 2, 8, 9]\n%w = param : f16[3, 2, 3, 3]\n", "%c = conv(%x, %w)\n" + norm),
      "conv batch_norm");
  EXPECT_EQ(folded(leaves, "%c = conv(%x, %w)\n" + norm + "\noutput c = %c"), "conv batch_norm");
  EXPECT_EQ(folded(leaves, "%c = conv(%x, %w) {epilogue=\"relu($0)\"}\n" + norm), "conv batch_norm");
  EXPECT_EQ(folded("%x = input : f32[1, 2, 3, 9]\n%w = param : f32[5, 2, 1, 1]\n",
                   "%c = conv(%x, %w)\n%y = batch_norm(%c, %m, %v, %g) {axis=2}"),
            "conv batch_norm");
}

// Between transposes from and to the other layout. The lines of `ops` are in the order in which they are
// read, the last first.
std::string between(const std::string& in, const std::string& ops, const std::string& out,
                    const std::string& rest = "") {
  std::string lines;
  std::istringstream text("%c = " + ops);
  for (std::string line; std::getline(text, line);) lines = line + "\n" + lines;
  return "%a = input : f32[2, 5, 6, 4]\n%w = param : f32[3, 4, 2, 2]\n%l = param : f32[3, 5, 2, 2]\n"
         "%v = param : f32[3, 1, 1]\n%h = constant {value=tensor f32[] fill 0.5}\n%x = transpose(%a) {perm=" +
         in + "}\n" + lines + "%y = transpose(%c) {perm=" + out + "}\noutput y = %y\n" + rest;
}

TEST(ImageLayout, TransposesOnBothSidesVanish) {
  const std::string first = "[0, 3, 1, 2]";
  const std::string last = "[0, 2, 3, 1]";
  expect_cases(
      image_layout, "layout=\"channels_last\"",
      {
          {"conv", between(first, "conv(%x, %w) {strides=[2, 1]}", last), true},
          {"pool", between(first, "max_pool(%x) {kernel=[2, 3], pads=[1, 0, 0, 1]}", last), true},
          {"mean", between(first, "avg_pool(%x) {kernel=[2, 3]}", last), true},
          {"another transpose before", between(last, "max_pool(%x) {kernel=[2, 2]}", last), false},
          {"another transpose after", between(first, "conv(%x, %w)", first), false},
          {"read without the transpose", between(first, "conv(%x, %w)", last, "output c = %c"), false},
          {"indices", between(first, "max_pool(%x) {kernel=[2, 2], indices=\"plane\"}", last), false},
      });
  const std::string back = between(last, "conv(%x, %l) {layout=\"channels_last\"}", first);
  EXPECT_FALSE(to_text(image_layout(graph_of(back))).contains("transpose"));
  expect_same_values(image_layout(graph_of(back)), graph_of(back));
}

}  // namespace
}  // namespace rlx::testing
