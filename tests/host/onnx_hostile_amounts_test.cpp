// ONNX files that are deep, or ask for much: functions and sub-graphs in each other, long chains, values that
// are computed while importing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "tests/host/onnx_hostile.h"
#include "tests/support/onnx_model.h"

namespace rlx {
namespace {

using testing::ElementType;
using testing::OnnxGraph;
using testing::OnnxModel;
using testing::hostile::Ints;
using testing::hostile::ints;
using testing::hostile::says;
using testing::hostile::whole;

TEST(OnnxHostile, FunctionsThatCallThemselves) {
  OnnxGraph body;
  body.node("F", {"a"}, {"b"}, {}, "f");
  OnnxModel model;
  model.function("f", "F", {"a"}, {"b"}, body);
  model.graph.input("x", {2}).node("F", {"x"}, {"y"}, {}, "f").output("y");
  EXPECT_FILE_SAYS(model, "functions call each other more than 31 deep");
}

TEST(OnnxHostile, FunctionsThatCallFunctionsExponentially) {
  OnnxModel model;
  for (int level = 0; level < 25; ++level) {
    OnnxGraph body;
    const std::string next = level == 24 ? "Relu" : "F" + std::to_string(level + 1);
    const std::string domain = level == 24 ? "" : "f";
    body.node(next, {"a"}, {"t"}, {}, domain)
        .node(next, {"t"}, {"u"}, {}, domain)
        .node(next, {"u"}, {"b"}, {}, domain);
    model.function("f", "F" + std::to_string(level), {"a"}, {"b"}, body);
  }
  model.graph.input("x", {2}).node("F0", {"x"}, {"y"}, {}, "f").output("y");
  EXPECT_FILE_SAYS(model, "the model has more than 250000 nodes");
}

TEST(OnnxHostile, SubGraphsInSubGraphs) {
  const auto nested = [](int depth, bool known) {
    OnnxGraph inner;
    inner.node("Relu", {"x"}, {"z"}).output("z");
    for (int i = 0; i < depth; ++i) {
      OnnxGraph outer;
      outer.node(
          "If", {"c"}, {"z"},
          {{"then_branch", inner}, {"else_branch", OnnxGraph().node("Neg", {"x"}, {"z"}).output("z")}});
      outer.output("z");
      inner = outer;
    }
    OnnxModel model;
    model.graph.input("x", {2});
    if (known) {
      model.graph.initializer("c", Tensor::scalar(true));
    } else {
      model.graph.input("c", {}, ElementType::boolean);
    }
    model.graph.node("If", {"c"}, {"y"}, {{"then_branch", inner}, {"else_branch", inner}}).output("y");
    return model;
  };
  for (const bool known : {false, true}) {
    EXPECT_EQ(says(nested(2, known)), "no error");
    EXPECT_FILE_SAYS(nested(40, known), "sub-graphs are nested more than 31 deep");
  }
  EXPECT_FILE_SAYS(nested(70, true), "sub-graphs are nested more than 64 deep");
}

// What can be imported can be printed and read: as deep as a text may be.
TEST(OnnxHostile, TheDeepestGraphHasAText) {
  OnnxGraph inner;
  inner.node("Relu", {"x"}, {"z"}).output("z");
  for (int i = 0; i < 30; ++i) {
    OnnxGraph outer;
    outer.node("If", {"c"}, {"z"},
               {{"then_branch", inner}, {"else_branch", OnnxGraph().node("Neg", {"x"}, {"z"}).output("z")}});
    outer.output("z");
    inner = outer;
  }
  OnnxModel model;
  model.graph.input("x", {2}).input("c", {}, ElementType::boolean);
  model.graph.node(
      "If", {"c"}, {"y"},
      {{"then_branch", inner}, {"else_branch", OnnxGraph().node("Neg", {"x"}, {"z"}).output("z")}});
  model.graph.output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  const std::string text = to_text(loaded.graph);
  EXPECT_EQ(to_text(parse_graph(text)), text);
}

// Each node is looked at once, whether or not its value is computed while importing. (What is quadratic would
// take hours here, and in the tests of limits below.)
constexpr int kLong = 100'000;

TEST(OnnxHostile, LongChainsOfSizesTakeLinearTime) {
  OnnxModel folded;
  folded.graph.input("x", {"n"}).node("Shape", {"x"}, {"s0"}).initializer("one", ints({1}));
  for (int i = 0; i < kLong; ++i)
    folded.graph.node("Add", {"s" + std::to_string(i), "one"}, {"s" + std::to_string(i + 1)});
  folded.graph.output("s" + std::to_string(kLong));
  EXPECT_EQ(says(folded), "no error");
}

TEST(OnnxHostile, LongChainsOfNumbersTakeLinearTime) {
  OnnxModel computed;  // each of which is needed
  computed.graph.initializer("f0", Tensor::scalar(0.F))
      .initializer("x", Tensor::scalar(1.F))
      .initializer("pads", ints({0, 0}));
  computed.graph.input("v", {2});
  for (int i = 0; i < kLong / 2; ++i) {
    computed.graph.node("Add", {"f" + std::to_string(i), "x"}, {"f" + std::to_string(i + 1)});
    computed.graph.node("Pad", {"v", "pads", "f" + std::to_string(i + 1)}, {"p" + std::to_string(i)});
  }
  computed.graph.output("p" + std::to_string(kLong / 2 - 1));
  EXPECT_EQ(says(computed), "no error");
}

TEST(OnnxHostile, LongChainsThatAreBackwardsTakeLinearTime) {
  OnnxModel model;
  model.graph.input("x0", {2});
  for (int i = kLong; i > 0; --i)
    model.graph.node("Neg", {"x" + std::to_string(i - 1)}, {"x" + std::to_string(i)});
  model.graph.output("x" + std::to_string(kLong));
  EXPECT_EQ(says(model), "no error");
}

TEST(OnnxHostile, ManyInputsAndInitializersTakeLinearTime) {
  OnnxModel named;
  for (int i = 0; i < kLong / 4; ++i) {
    named.graph.initializer("w" + std::to_string(i), Tensor::scalar(1.F));
    named.graph.input("w" + std::to_string(i), {}).input("x" + std::to_string(i), {});
    named.graph.node("Add", {"w" + std::to_string(i), "x" + std::to_string(i)}, {"y" + std::to_string(i)});
  }
  named.graph.output("y0");
  EXPECT_EQ(says(named), "no error");
}

// Values that are computed while importing are kept: not too many, and none that takes long.
TEST(OnnxHostile, FoldingHasALimit) {
  OnnxModel kept;  // ten thousand times half a megabyte
  kept.graph.initializer("f0", Tensor::zeros(DType::f32, {65536})).initializer("x", Tensor::scalar(1.F));
  for (int i = 0; i < 10'000; ++i)
    kept.graph.node("Add", {"f" + std::to_string(i), "x"}, {"f" + std::to_string(i + 1)});
  kept.graph.input("v", {2}).node("Reshape", {"v", "f10000"}, {"y"}).output("y");
  EXPECT_FILE_SAYS(kept, "the model asks for too much work");

  OnnxModel slow;  // 65536 times 65536 products
  slow.graph.initializer("a", Tensor::zeros(DType::f32, {1, 1, 65536}))
      .initializer("w", Tensor::zeros(DType::f32, {1, 1, 65536}))
      .node("Conv", {"a", "w"}, {"c"}, {{"pads", Ints{32768, 32767}}})
      .input("v", {2})
      .node("Reshape", {"v", "c"}, {"y"})
      .output("y");
  EXPECT_FILE_SAYS(slow, "y (Reshape)");

  OnnxModel lists;  // of integers
  lists.graph.initializer("l0", ints(Ints(4096, 1)));
  for (int i = 0; i < 100'000; ++i)
    lists.graph.node("Neg", {"l" + std::to_string(i)}, {"l" + std::to_string(i + 1)});
  lists.graph.output("l1");
  EXPECT_FILE_SAYS(lists, "the model asks for too much work");
}

TEST(OnnxHostile, SizesThatGrow) {
  OnnxModel model;  // (a + b + 1)^n, a sum of ever more products
  model.graph.input("x", {"a", "b"}).node("Shape", {"x"}, {"s"}).initializer("zero", whole(0));
  model.graph.node("ReduceSum", {"s"}, {"p0"});
  for (int i = 0; i < 2000; ++i)
    model.graph.node("Mul", {"p" + std::to_string(i), "p" + std::to_string(i)},
                     {"p" + std::to_string(i + 1)});
  model.graph.output("p2000");
  EXPECT_NE(says(model), "no error");

  OnnxModel lists;  // of 4096 such sizes, each of which would be a node
  std::vector<std::string> parts(4096, "s");
  lists.graph.input("x", {"a"}).node("Shape", {"x"}, {"s"}).node("Concat", parts, {"many"}, {{"axis", 0}});
  lists.graph.node("Cast", {"many"}, {"y"}, {{"to", 1}}).output("y");
  EXPECT_FILE_SAYS(lists, "it computes with 4096 sizes that are known only when it runs");
}

}  // namespace
}  // namespace rlx
