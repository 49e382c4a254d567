// What the ONNX rules make of single nodes: a model of one node is imported and computed by the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/random.h"
#include "tests/support/message.h"
#include "tests/support/one_node.h"

namespace rlx::testing {
namespace {

// --- arithmetic ---

TEST(OnnxArithmetic, PowHasTheTypeOfItsBase) {
  const RefTensor y = OneNode("Pow").value(ints({2}, {9, 16})).constant(Tensor::scalar(0.5f)).y();
  EXPECT_EQ(y.dtype, DType::i32);
  EXPECT_EQ(y.ints, (Ints{3, 4}));
}

TEST(OnnxArithmetic, ModHasTheSignOfTheDivisorUnlessFmod) {
  const Tensor a = ints({2}, {-7, 7});
  const Tensor b = ints({2}, {3, -3});
  EXPECT_EQ(OneNode("Mod").value(a).value(b).y().ints, (Ints{2, -2}));
  EXPECT_EQ(OneNode("Mod", {{"fmod", 1}}).value(a).value(b).y().ints, (Ints{-1, 1}));
  EXPECT_SAYS(OneNode("Mod").input({2}).input({2}).load(), "floats need fmod=1");
}

TEST(OnnxArithmetic, ClipHasItsBoundsInAttributesBeforeOpset11) {
  const Tensor x = floats({3}, {-5, 0.5f, 5});
  EXPECT_EQ(OneNode("Clip", {{"min", -1.0}, {"max", 2.0}}, 10).value(x).y().real, (Reals{-1, 0.5, 2}));
  EXPECT_EQ(OneNode("Clip").value(x).absent().constant(Tensor::scalar(2.0f)).y().real, (Reals{-5, 0.5, 2}));
}

// --- random numbers ---

TEST(OnnxRandom, NumbersDependOnTheSeedOfTheNode) {
  const auto drawn = [](float seed) {
    return OneNode("RandomNormal", {{"shape", Ints{50}}, {"seed", seed}}).y().real;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  // Which is the bits of the float.
  Graph g;
  g.output("y", random_normal(g, {50}, 0x3f800000));
  EXPECT_EQ(drawn(1), run_reference(g, {}).at("y").real);
}

TEST(OnnxRandom, NodesWithoutASeedDrawOtherNumbers) {
  OnnxModel model(21);
  model.graph.output("a").output("b");
  model.graph.node("RandomUniform", {}, {"a"}, {{"shape", Ints{40}}, {"low", 2.0f}, {"high", 3.0f}});
  model.graph.node("RandomUniform", {}, {"b"}, {{"shape", Ints{40}}, {"low", 2.0f}, {"high", 3.0f}});
  const auto run = [&](const onnx::LoadOptions& options, const NamedTensors& inputs) {
    return run_reference(onnx::parse(model.bytes(), "", options).graph, inputs);
  };
  const auto plain = run({}, {});
  EXPECT_NE(plain.at("a").real, plain.at("b").real);
  EXPECT_EQ(plain.at("a").real, run({}, {}).at("a").real);
  for (const double v : plain.at("a").real) EXPECT_TRUE(v >= 2 && v < 3);
  EXPECT_NE(plain.at("a").real, run({.seed = 1}, {}).at("a").real);
  const auto given = run({.seed_input = "seed"}, {{"seed", Tensor::of<uint32_t>({2}, {1, 0})}});
  EXPECT_EQ(given.at("a").real, run({.seed = 1}, {}).at("a").real);
  EXPECT_EQ(given.at("b").real, run({.seed = 1}, {}).at("b").real);
  EXPECT_SAYS(run({.seed_input = "a"}, {}), "'a'");
}

TEST(OnnxRandom, SeedsAreInputsOfSubgraphsToo) {
  OnnxModel model(21);
  OnnxGraph then_branch;
  then_branch.output("y").node("RandomUniform", {}, {"y"}, {{"shape", Ints{3}}});
  OnnxGraph else_branch;
  else_branch.output("y").node("RandomNormal", {}, {"y"}, {{"shape", Ints{3}}});
  model.graph.input("c", {}, ElementType::boolean).output("y");
  model.graph.node("If", {"c"}, {"y"}, {{"then_branch", then_branch}, {"else_branch", else_branch}});
  const Graph graph = onnx::parse(model.bytes(), "", {.seed_input = "seed"}).graph;
  const auto run = [&](uint32_t seed) {
    return run_reference(graph, {{"c", Tensor::full(DType::bool_, {}, 1)},
                                 {"seed", Tensor::of<uint32_t>({2}, {seed, 0})}})
        .at("y")
        .real;
  };
  EXPECT_NE(run(1), run(2));
  EXPECT_EQ(run(1), run(1));
}

TEST(OnnxRandom, LikeTakesShapeAndTypeFromTheInput) {
  const RefTensor y = OneNode("RandomUniformLike").input({"n", 3}).y({{"n", 2}}, {{"x0", counting({2, 3})}});
  EXPECT_EQ(y.dims, (Ints{2, 3}));
  const RefTensor half = OneNode("RandomNormalLike", {{"dtype", 10}}).value(counting({4}, DType::i64)).y();
  EXPECT_EQ(half.dtype, DType::f16);
  EXPECT_SAYS(OneNode("RandomNormalLike").value(counting({4}, DType::i64)).load(), "must be floats");
  EXPECT_SAYS(OneNode("RandomNormal").load(), "'shape' is missing");
}

TEST(OnnxRandom, MultinomialAndBernoulliAreDecidedByCertainties) {
  const float inf = std::numeric_limits<float>::infinity();
  const RefTensor classes =
      OneNode("Multinomial", {{"sample_size", 3}}).value(floats({2, 3}, {-inf, 0, -inf, 5, -inf, -inf})).y();
  EXPECT_EQ(classes.dtype, DType::i32);
  EXPECT_EQ(classes.ints, (Ints{1, 1, 1, 0, 0, 0}));
  const RefTensor hits = OneNode("Bernoulli", {{"dtype", 9}}).value(floats({3}, {0, 1, 0})).y();
  EXPECT_EQ(hits.dtype, DType::bool_);
  EXPECT_EQ(hits.ints, (Ints{0, 1, 0}));
}

TEST(OnnxRandom, DropoutScalesWhatItKeeps) {
  const auto y = OneNode("Dropout", {{"seed", 3}})
                     .value(Tensor::full(DType::f32, {1000}, 1))
                     .constant(Tensor::scalar(0.75f))
                     .constant(Tensor::full(DType::bool_, {}, 1))
                     .outputs({true, true})
                     .run();
  int64_t kept = 0;
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(y.at("y0").real[i], y.at("y1").ints[i] != 0 ? 4 : 0);
    kept += y.at("y1").ints[i];
  }
  EXPECT_NEAR(static_cast<double>(kept), 250, 60);
}

// --- cast ---

TEST(OnnxCast, SmallIntegersKeepTheirLowBits) {
  const OneNode cast = OneNode("Cast", {{"to", static_cast<int>(ElementType::int16)}})
                           .value(floats({3}, {70000, -2.9f, 40000}));
  EXPECT_EQ(cast.y().ints, (Ints{4464, -2, 40000 - 65536}));
  EXPECT_EQ(cast.load().carried.at("y0"), "int16");
  EXPECT_SAYS(OneNode("Cast", {{"to", static_cast<int>(ElementType::string)}}).input({1}).load(), "string");
}

TEST(OnnxBitCast, ReadsBitsAsAnotherType) {
  const auto bitcast = [](ElementType to) { return OneNode("BitCast", {{"to", static_cast<int>(to)}}, 26); };
  EXPECT_EQ(bitcast(ElementType::int32).value(floats({2}, {1, -2})).y().ints,
            (Ints{0x3f800000, static_cast<int32_t>(0xc0000000)}));
  EXPECT_EQ(bitcast(ElementType::float32).value(ints({1}, {0x40490fdb})).y().real,
            (Reals{3.1415927410125732}));
  EXPECT_EQ(bitcast(ElementType::uint32).value(ints({1}, {-1})).y().ints, (Ints{0xffffffff}));
  EXPECT_EQ(bitcast(ElementType::uint8).value(Tensor::of<int8_t>({2}, {-1, 5})).y().ints, (Ints{255, 5}));
  const OneNode narrow = bitcast(ElementType::int16).input({2}, ElementType::uint16);
  EXPECT_EQ(narrow.y({}, {{"x0", ints({2}, {65535, 7})}}).ints, (Ints{-1, 7}));
  EXPECT_SAYS(bitcast(ElementType::int64).input({1}).load(), "of 32 bits cannot be read as");
  EXPECT_SAYS(bitcast(ElementType::int64).input({1}, ElementType::float64).load(), "cannot be read as");
}

// --- concat ---

TEST(OnnxConcat, AxesMayBeNegativeAndSizesSymbols) {
  const OneNode concat = OneNode("Concat", {{"axis", -1}}).input({2, "n"}).input({2, "m"});
  EXPECT_EQ(output_shape(concat.load()).text(), "[2, m+n]");
  const RefTensor y = concat.y({{"n", 1}, {"m", 2}}, {{"x0", counting({2, 1})}, {"x1", counting({2, 2})}});
  EXPECT_EQ(y.real, (Reals{0, 0, 1, 1, 2, 3}));
}

TEST(OnnxSplit, TheLastPartIsSmaller) {
  const auto y =
      OneNode("Split", {{"num_outputs", 3}}, 18).value(counting({7})).outputs({true, true, true}).run();
  EXPECT_EQ(y.at("y0").real, (Reals{0, 1, 2}));
  EXPECT_EQ(y.at("y1").real, (Reals{3, 4, 5}));
  EXPECT_EQ(y.at("y2").real, (Reals{6}));
  EXPECT_SAYS(OneNode("Split").input({7}).constant(longs({2}, {3, 3})).outputs({true, true}).load(),
              "its sizes add up to 6, but axis 0 has 7");
}

// --- constant ---

TEST(OnnxConstant, OfAShapeThatOnlyTheRunKnows) {
  OnnxModel model;
  model.graph.input("x", {"n", 3})
      .node("Shape", {"x"}, {"shape"})
      .node("ConstantOfShape", {"shape"}, {"y"}, {{"value", Tensor::of<int32_t>({1}, {7})}})
      .output("y", ElementType::int32);
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(output_shape(loaded).text(), "[n, 3]");
  const auto y = run_reference(bind_symbols(loaded.graph, {{"n", 2}}), {{"x", counting({2, 3})}});
  EXPECT_EQ(y.at("y").ints, Ints(6, 7));
}

TEST(OnnxConstant, RangesMayGoDown) {
  const OneNode range = OneNode("Range")
                            .constant(Tensor::scalar<int64_t>(5))
                            .constant(Tensor::scalar<int64_t>(-2))
                            .constant(Tensor::scalar<int64_t>(-3));
  EXPECT_EQ(range.y().ints, (Ints{5, 2, -1}));
}

// --- control flow ---

OnnxGraph branch(const std::string& op) {
  OnnxGraph graph;
  graph.node(op, {"x0"}, {"made"}).output("made");
  return graph;
}

TEST(OnnxControlFlow, AKnownConditionLeavesOneBranch) {
  OnnxModel model;
  model.graph.input("x0", {2})
      .initializer("condition", Tensor::scalar(false))
      .node("If", {"condition"}, {"y"}, {{"then_branch", branch("Neg")}, {"else_branch", branch("Relu")}})
      .output("y");
  EXPECT_EQ(optimized(onnx::parse(model.bytes())), std::vector<std::string>{"relu"});
}

TEST(OnnxControlFlow, TheDeviceDecidesOtherwise) {
  OnnxModel model;
  model.graph.input("x0", {2})
      .input("condition", {}, ElementType::boolean)
      .node("If", {"condition"}, {"y"}, {{"then_branch", branch("Neg")}, {"else_branch", branch("Relu")}})
      .output("y");
  const Graph graph = onnx::parse(model.bytes()).graph;
  const Tensor x = floats({2}, {-1, 2});
  EXPECT_EQ(run_reference(graph, {{"x0", x}, {"condition", Tensor::scalar(true)}}).at("y").real,
            (Reals{1, -2}));
  EXPECT_EQ(run_reference(graph, {{"x0", x}, {"condition", Tensor::scalar(false)}}).at("y").real,
            (Reals{0, 2}));
}

// A network with a branch for each rate of sound: the shapes of the other branch make no sense.
TEST(OnnxControlFlow, ABranchThatCannotBeImportedIsLeftOutIfAGivenInputDecides) {
  OnnxModel model;
  OnnxGraph narrow;
  narrow.node("MatMul", {"x0", "three"}, {"made"}).node("Relu", {"made"}, {"done"}).output("done");
  model.graph.input("x0", {1, 2})
      .input("rate", {}, ElementType::int64)
      .initializer("three", Tensor::full(DType::f32, {3, 2}, 1))
      .initializer("8000", Tensor::scalar<int64_t>(8000))
      .node("Equal", {"rate", "8000"}, {"condition"})
      .node("If", {"condition"}, {"y"}, {{"then_branch", narrow}, {"else_branch", branch("Neg")}})
      .output("y");
  const auto load = [&](const NamedTensors& values) {
    return onnx::parse(model.bytes(), "", {.values = values});
  };
  EXPECT_EQ(optimized(load({{"rate", Tensor::scalar<int64_t>(16000)}})), std::vector<std::string>{"neg"});
  EXPECT_SAYS(load({}), "whether it is needed depends on the value of the input 'rate'");
  EXPECT_SAYS(load({}), "made (MatMul)");
  EXPECT_SAYS(load({{"rate", Tensor::scalar<int64_t>(8000)}}), "1 node cannot be imported");
}

TEST(OnnxControlFlow, ASizeThatDecidesAShapeIsNamed) {
  OnnxModel model;
  OnnxGraph squeezed;
  squeezed.node("Squeeze", {"x0", "0"}, {"made"}).output("made");
  model.graph.input("x0", {"n", 2})
      .initializer("0", Tensor::of<int64_t>({1}, {0}))
      .initializer("1", Tensor::of<int64_t>({1}, {1}))
      .node("Shape", {"x0"}, {"shape"})
      .node("Gather", {"shape", "0"}, {"n"})
      .node("Equal", {"n", "1"}, {"condition"})
      .node("If", {"condition"}, {"y"}, {{"then_branch", squeezed}, {"else_branch", branch("Neg")}})
      .output("y");
  EXPECT_SAYS(onnx::parse(model.bytes()), "depends on the size n, which must be given with the model");
  EXPECT_EQ(optimized(onnx::parse(model.bytes(), "", {.symbols = {{"n", 3}}})),
            std::vector<std::string>{"neg"});
}

// The sum so far, and each of them.
OnnxGraph running_sum() {
  OnnxGraph body;
  body.input("sum", {}).input("x", {}).node("Add", {"sum", "x"}, {"next"});
  body.node("Identity", {"next"}, {"each"}).output("next").output("each");
  return body;
}

TEST(OnnxControlFlow, ScansMayGoBackwards) {
  const OneNode scan = OneNode("Scan", {{"body", running_sum()},
                                        {"num_scan_inputs", 1},
                                        {"scan_input_directions", Ints{1}},
                                        {"scan_output_directions", Ints{1}}})
                           .value(Tensor::scalar(0.0f))
                           .value(floats({3}, {1, 10, 100}))
                           .outputs({true, true});
  const auto y = scan.run();
  EXPECT_EQ(y.at("y0").real, (Reals{111}));
  EXPECT_EQ(y.at("y1").real, (Reals{111, 110, 100}));
}

TEST(OnnxControlFlow, LoopsWithAKnownNumberOfTripsStack) {
  OnnxGraph body;
  body.input("i", {}, ElementType::int64).input("going", {}, ElementType::boolean).input("a", {2});
  body.node("Add", {"a", "a"}, {"next"}).node("Identity", {"going"}, {"go_on"}).node("Relu", {"a"}, {"each"});
  body.output("go_on", ElementType::boolean).output("next").output("each");
  const OneNode loop = OneNode("Loop", {{"body", body}})
                           .constant(Tensor::scalar<int64_t>(3))
                           .absent()
                           .value(floats({2}, {1, -1}))
                           .outputs({true, true});
  const auto y = loop.run();
  EXPECT_EQ(y.at("y0").real, (Reals{8, -8}));
  EXPECT_EQ(y.at("y1").dims, (Ints{3, 2}));
  EXPECT_EQ(y.at("y1").real, (Reals{1, 0, 2, 0, 4, 0}));
}

// --- conv ---

TEST(OnnxConv, AnOddZeroGoesToTheEndOrTheBegin) {
  const auto with = [](const std::string& pad) {
    return OneNode("Conv", {{"auto_pad", pad}})
        .value(floats({1, 1, 3}, {1, 10, 100}))
        .constant(floats({1, 1, 2}, {1, 2}));
  };
  EXPECT_EQ(with("SAME_UPPER").y().real, (Reals{21, 210, 100}));
  EXPECT_EQ(with("SAME_LOWER").y().real, (Reals{2, 21, 210}));
  EXPECT_EQ(with("VALID").y().real, (Reals{21, 210}));
  EXPECT_SAYS(with("SOME").load(), "its auto_pad is 'SOME'");
  EXPECT_SAYS(OneNode("Conv", {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2}}})
                  .input({1, 1, "n"})
                  .constant(floats({1, 1, 2}, {1, 2}))
                  .load(),
              "its padding depends on the size n");
}

// --- expand ---

TEST(OnnxExpand, AOneKeepsTheSizeThatIsThere) {
  const RefTensor y = OneNode("Expand").value(counting({2, 1})).constant(longs({3}, {2, 1, 3})).y();
  EXPECT_EQ(y.dims, (Ints{2, 2, 3}));
  EXPECT_EQ(y.real, (Reals{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
}

TEST(OnnxExpand, TileRepeatsWholeTensors) {
  const OneNode tile = OneNode("Tile").input({"n", 2}).constant(longs({2}, {2, 1}));
  EXPECT_EQ(output_shape(tile.load()).text(), "[2*n, 2]");
  EXPECT_EQ(tile.y({{"n", 2}}, {{"x0", counting({2, 2})}}).real, (Reals{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_SAYS(OneNode("Tile").input({2, 2}).constant(longs({1}, {2})).load(), "1 repeats for 2 axes");
}

// --- gather ---

TEST(OnnxGather, AxesAndIndicesMayBeNegative) {
  const RefTensor y =
      OneNode("Gather", {{"axis", -1}}).value(counting({2, 3})).value(longs({2}, {-1, 0})).y();
  EXPECT_EQ(y.real, (Reals{2, 0, 5, 3}));
}

// --- matmul ---

TEST(OnnxMatMul, IntegersAreExact) {
  const RefTensor y = OneNode("MatMul").value(ints({1, 2}, {40000, 1})).value(ints({2, 1}, {40000, 7})).y();
  EXPECT_EQ(y.ints, (Ints{1600000007}));
}

TEST(OnnxMatMul, GemmTransposesAndScales) {
  const RefTensor y = OneNode("Gemm", {{"transA", 1}, {"alpha", 2.0}, {"beta", 10.0}})
                          .value(floats({2, 1}, {1, 2}))
                          .value(floats({2, 2}, {1, 2, 3, 4}))
                          .value(floats({2}, {1, -1}))
                          .y();
  EXPECT_EQ(y.real, (Reals{2 * 7 + 10, 2 * 10 - 10}));
  EXPECT_SAYS(OneNode("Gemm").input({2, 2, 2}).input({2, 2}).load(), "not both matrices");
}

TEST(OnnxMatMul, FusedMatMulIsOneProduct) {
  const OneNode product =
      OneNode::microsoft("FusedMatMul", {{"transBatchA", 1}, {"transB", 1}, {"alpha", 0.5}})
          .input({3, "n", 4})
          .input({"n", 5, 4});
  EXPECT_EQ(output_shape(product.load()).text(), "[n, 3, 5]");
  EXPECT_EQ(optimized(product.load()).size(), 1u);
}

// --- norms ---

TEST(OnnxNorms, LayerNormalizationShowsItsStatistics) {
  const auto y = OneNode("LayerNormalization", {{"axis", -2}, {"epsilon", 0.0}})
                     .value(floats({1, 2, 2}, {1, 1, 5, 5}))
                     .constant(floats({2}, {1, 10}))
                     .absent()
                     .outputs({true, true, true})
                     .run();
  EXPECT_EQ(y.at("y0").real, (Reals{-1, -10, 1, 10}));
  EXPECT_EQ(y.at("y1").dims, (Ints{1, 1, 1}));
  EXPECT_EQ(y.at("y1").real, (Reals{3}));
  EXPECT_EQ(y.at("y2").real, (Reals{0.5}));
}

// --- pad ---

TEST(OnnxPad, NegativePadsCutOff) {
  EXPECT_EQ(OneNode("Pad", {{"pads", Ints{-1, 2}}, {"value", 9.0}}, 10).value(counting({3})).y().real,
            (Reals{1, 2, 9, 9}));
  const RefTensor y = OneNode("Pad", {}, 18)
                          .value(counting({2, 2}))
                          .constant(longs({2}, {1, 0}))
                          .constant(Tensor::scalar(9.0f))
                          .constant(longs({1}, {-1}))
                          .y();
  EXPECT_EQ(y.real, (Reals{9, 0, 1, 9, 2, 3}));
  EXPECT_SAYS(OneNode("Pad").input({2, 2}).constant(longs({2}, {1, 1})).load(), "2 pads for 2 axes");
}

// --- reduce ---

TEST(OnnxReduce, AxesMoveFromAttributeToInput) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(OneNode("ReduceMax", {{"axes", Ints{-1}}, {"keepdims", 0}}, 11).value(x).y().real, (Reals{2, 5}));
  const RefTensor y = OneNode("ReduceMax", {}, 18).value(x).constant(longs({1}, {0})).y();
  EXPECT_EQ(y.dims, (Ints{1, 3}));
  EXPECT_EQ(y.real, (Reals{3, 4, 5}));
  EXPECT_EQ(OneNode("ReduceSum").value(x).y().real, (Reals{15}));
  EXPECT_EQ(OneNode("ReduceSumSquare", {{"noop_with_empty_axes", 1}}, 18).value(counting({3})).y().real,
            (Reals{0, 1, 4}));
  EXPECT_SAYS(OneNode("ReduceSum").input({2, 3}).constant(longs({2}, {1, -1})).load(), "has an axis twice");
}

// --- reshape ---

TEST(OnnxReshape, ZeroCopiesAndMinusOneIsTheRest) {
  const OneNode reshape = OneNode("Reshape").input({"n", 2, 3}).constant(longs({2}, {0, -1}));
  EXPECT_EQ(output_shape(reshape.load()).text(), "[n, 6]");
  EXPECT_SAYS(OneNode("Reshape").input({2}).constant(longs({2}, {2, 0})).load(), "copies axis 1");
}

TEST(OnnxReshape, AxesOfSqueezeMoveFromAttributeToInput) {
  EXPECT_EQ(output_shape(OneNode("Squeeze", {{"axes", Ints{-1}}}, 11).input({1, "n", 1}).load()).text(),
            "[1, n]");
  EXPECT_EQ(output_shape(OneNode("Unsqueeze").input({"n"}).constant(longs({2}, {-1, 0})).load()).text(),
            "[1, n, 1]");
  EXPECT_EQ(output_shape(OneNode("Flatten", {{"axis", 0}}).input({"n", 3}).load()).text(), "[1, 3*n]");
  EXPECT_SAYS(OneNode("Squeeze").input({2, 1}).constant(longs({1}, {0})).load(), "cannot be squeezed");
}

// --- slice ---

TEST(OnnxSlice, BoundsCountFromTheEndAndMayLieOutside) {
  const auto cut = [](int64_t start, int64_t end, int64_t step) {
    return OneNode("Slice")
        .value(counting({5}))
        .constant(longs({1}, {start}))
        .constant(longs({1}, {end}))
        .constant(longs({1}, {-1}))
        .constant(longs({1}, {step}))
        .y()
        .real;
  };
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(cut(-2, kLast, 1), (Reals{3, 4}));
  EXPECT_EQ(cut(kLast, kFirst, -2), (Reals{4, 2, 0}));
  EXPECT_EQ(cut(1, -1, 2), (Reals{1, 3}));
  EXPECT_EQ(cut(4, 2, 1), (Reals{}));
  const OneNode symbolic = OneNode("Slice", {{"starts", Ints{1}}, {"ends", Ints{-1}}}, 9).input({"n"});
  EXPECT_EQ(output_shape(symbolic.load()).text(), "[-min(2,n)+n]");
}

// --- softmax ---

TEST(OnnxSoftmax, BeforeOpset13TheInputIsAMatrix) {
  const Tensor x = Tensor::zeros(DType::f32, {1, 2, 2});
  EXPECT_EQ(OneNode("Softmax", {}, 11).value(x).y().real, Reals(4, 0.25));
  EXPECT_EQ(OneNode("Softmax", {}, 13).value(x).y().real, Reals(4, 0.5));
  EXPECT_EQ(OneNode("Softmax", {{"axis", -3}}, 13).value(x).y().real, Reals(4, 1));
}

// --- transpose ---

TEST(OnnxTranspose, ReversesUnlessTold) {
  EXPECT_EQ(output_shape(OneNode("Transpose").input({"a", 2, 3}).load()).text(), "[3, 2, a]");
  EXPECT_EQ(output_shape(OneNode("Transpose", {{"perm", Ints{0, 2, 1}}}).input({"a", 2, 3}).load()).text(),
            "[a, 3, 2]");
}

// --- arg_extreme ---

TEST(OnnxArgMax, TheFirstOrTheLastOfEquals) {
  const Tensor x = floats({4}, {1, 3, 3, 2});
  EXPECT_EQ(OneNode("ArgMax").value(x).y().ints, (Ints{1}));
  EXPECT_EQ(OneNode("ArgMax", {{"select_last_index", 1}}).value(x).y().ints, (Ints{2}));
  const Tensor square = floats({2, 2}, {1, 2, 4, 3});
  EXPECT_EQ(OneNode("Hardmax", {{"axis", 0}}, 11).value(square).y().real, (Reals{0, 0, 1, 0}));
  EXPECT_EQ(OneNode("Hardmax", {{"axis", 0}}, 13).value(square).y().real, (Reals{0, 0, 1, 1}));
}

// --- pools ---

// What ONNX Runtime gives: a kernel that is longer than its axis, by less than a stride, has one window.
TEST(OnnxPools, AKernelLongerThanItsAxisHasOneWindow) {
  const Tensor x = floats({1, 1, 1, 4}, {0, 1, 2, 3});
  const OnnxGraph::Attributes two = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  for (const int ceil : {0, 1}) {
    OnnxGraph::Attributes attributes = two;
    attributes.push_back({"ceil_mode", ceil});
    const RefTensor y = OneNode("MaxPool", attributes).value(x).y();
    EXPECT_EQ(y.dims, (Ints{1, 1, 1, 2}));
    EXPECT_EQ(y.real, (Reals{1, 3}));
    EXPECT_EQ(OneNode("AveragePool", attributes).value(x).y().real, (Reals{0.5, 2.5}));
  }
  EXPECT_SAYS(OneNode("MaxPool", {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}}).value(x).load(),
              "the kernel does not fit");
}

}  // namespace
}  // namespace rlx::testing
