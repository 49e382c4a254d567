// What the ONNX rules make of single nodes: a model of one node is imported and computed by the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "passes/passes.h"
#include "rlx/onnx.h"
#include "rlx/ops.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"

namespace rlx::testing {
namespace {

using Reals = std::vector<double>;
using Ints = std::vector<int64_t>;
using Dims = std::vector<OnnxGraph::Dim>;

constexpr auto kMicrosoft = "com.microsoft";

// A model of one node with the inputs x0, x1, ... and the outputs y0, y1, ...
class OneNode {
 public:
  explicit OneNode(std::string op, OnnxGraph::Attributes attributes = {}, int64_t opset = 21)
      : op_(std::move(op)), attributes_(std::move(attributes)), model_(opset) {
    model_.import(kMicrosoft, 1);
  }
  // An op of com.microsoft.
  static OneNode microsoft(std::string op, OnnxGraph::Attributes attributes = {}) {
    OneNode out(std::move(op), std::move(attributes));
    out.domain_ = kMicrosoft;
    return out;
  }

  OneNode& input(const Dims& dims, ElementType type = ElementType::float32) {
    model_.graph.input(next_name(), dims, type);
    return *this;
  }
  // An input with its value.
  OneNode& value(const Tensor& tensor) {
    Dims dims;
    for (const int64_t n : tensor.shape()) dims.emplace_back(static_cast<int>(n));
    values_[formatted("x{}", inputs_.size())] = tensor;
    return input(dims, onnx::element_type_of(tensor.dtype()));
  }
  OneNode& constant(const Tensor& tensor) {
    model_.graph.initializer(next_name(), tensor);
    return *this;
  }
  OneNode& absent() {
    inputs_.emplace_back();
    return *this;
  }
  OneNode& outputs(const std::vector<bool>& wanted) {
    outputs_ = wanted;
    return *this;
  }

  onnx::Model load() const {
    OnnxModel model = model_;
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      names.push_back(outputs_[i] ? formatted("y{}", i) : "");
      if (outputs_[i]) model.graph.output(names.back());
    }
    model.graph.node(op_, inputs_, names, attributes_, domain_);
    return onnx::parse(model.bytes());
  }
  std::map<std::string, RefTensor> run(const SymbolValues& sizes = {},
                                       const NamedTensors& values = {}) const {
    const onnx::Model model = load();
    NamedTensors leaves = model.weights;
    leaves.insert(values_.begin(), values_.end());
    leaves.insert(values.begin(), values.end());
    return run_reference(bind_symbols(model.graph, sizes), leaves);
  }
  RefTensor y(const SymbolValues& sizes = {}, const NamedTensors& values = {}) const {
    return run(sizes, values).at("y0");
  }

 private:
  std::string next_name() { return inputs_.emplace_back(formatted("x{}", inputs_.size())); }

  std::string op_;
  std::string domain_;
  OnnxGraph::Attributes attributes_;
  OnnxModel model_;
  std::vector<std::string> inputs_;
  std::vector<bool> outputs_ = {true};
  NamedTensors values_;
};

Tensor floats(const Ints& shape, const std::vector<float>& values) { return Tensor::of(shape, values); }
Tensor longs(const Ints& shape, const Ints& values) { return Tensor::of(shape, values); }
Tensor ints(const Ints& shape, const std::vector<int32_t>& values) { return Tensor::of(shape, values); }
// 0, 1, 2, ...
Tensor counting(const Ints& shape, DType dtype = DType::f32) {
  Ints values(static_cast<size_t>(Shape(shape).elements().value()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  return Tensor::from_ints(dtype, shape, values);
}
// Numbers that look like nothing.
Tensor waves(const Ints& shape, double phase) {
  Reals values(static_cast<size_t>(Shape(shape).elements().value()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(phase + 1.7 * static_cast<double>(i));
  return Tensor::from_doubles(DType::f32, shape, values);
}

Shape output_shape(const onnx::Model& model, size_t i = 0) {
  return model.graph.type(model.graph.outputs().at(i).value).shape;
}

// The ops that remain after all passes, other than leaves and views.
std::vector<std::string> optimized(const onnx::Model& model) {
  const Graph graph = optimize(expand_ops(model.graph), {});
  std::vector<std::string> out;
  for (const Node& n : graph.nodes()) {
    const std::string name(n.op->name());
    const bool view = name == "reshape" || name == "transpose" || name == "slice" || name == "expand";
    if (!n.op->is_leaf() && !view) out.push_back(name);
  }
  return out;
}

void expect_near(const Reals& got, const Reals& want, double allowed = 1e-6) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], allowed) << "at " << i;
}

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
  EXPECT_EQ(output_shape(symbolic.load()).text(), "[n-2]");
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

// --- attention ---

OneNode attention(const OnnxGraph::Attributes& more, int queries, int keys) {
  OnnxGraph::Attributes attributes = {{"q_num_heads", 1}, {"kv_num_heads", 1}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return OneNode("Attention", attributes, 24)
      .value(Tensor::zeros(DType::f32, {1, queries, 2}))
      .value(Tensor::zeros(DType::f32, {1, keys, 2}))
      .value(counting({1, keys, 2}));
}

TEST(OnnxAttention, IsOneNode) {
  const OneNode flat = OneNode("Attention", {{"q_num_heads", 4}, {"kv_num_heads", 2}, {"is_causal", 1}}, 23)
                           .input({"b", "s", 32})
                           .input({"b", "s", 16})
                           .input({"b", "s", 16})
                           .absent()
                           .input({"b", 2, "p", 8})
                           .input({"b", 2, "p", 8})
                           .outputs({true, true, true});
  const onnx::Model model = flat.load();
  EXPECT_EQ(output_shape(model, 0).text(), "[b, s, 32]");
  EXPECT_EQ(output_shape(model, 1).text(), "[b, 2, p+s, 8]");
  EXPECT_TRUE(print(model.graph).contains(R"(mask="causal")")) << print(model.graph);
  EXPECT_EQ(optimized(model), (std::vector<std::string>{"concat", "concat", "attention"}));
}

// Equal scores give the average of the values that are seen.
TEST(OnnxAttention, CausalCountsFromTheFirstKey) {
  expect_near(attention({{"is_causal", 1}}, 2, 3).y().real, {0, 1, 1, 2});
}

TEST(OnnxAttention, AQueryThatSeesNothingIsNan) {
  const RefTensor y = attention({}, 2, 2).value(Tensor::of<bool>({2, 2}, {false, false, true, true})).y();
  EXPECT_TRUE(std::isnan(y.real[0]));
  expect_near({y.real[2], y.real[3]}, {1, 2});
}

TEST(OnnxAttention, AMaskMayEndBeforeTheLastKey) {
  expect_near(attention({}, 1, 3).value(floats({1, 2}, {0, 0})).y().real, {1, 2});
  const Tensor lengths = longs({1}, {1});
  expect_near(attention({}, 1, 3).absent().absent().absent().value(lengths).y().real, {0, 1});
}

// The cap comes after the mask, so that a masked key has a weight of exp(-cap).
TEST(OnnxAttention, CapsAfterTheMask) {
  const OneNode capped =
      attention({{"softcap", 1.0}}, 1, 2).value(Tensor::of<bool>({1, 2}, {true, false})).outputs({true});
  const double weight = std::exp(-1.0) / (1 + std::exp(-1.0));
  expect_near(capped.y().real, {2 * weight, 1 + 2 * weight});
  // Without a mask it is the same as ours.
  EXPECT_EQ(optimized(attention({{"softcap", 1.0}}, 1, 2).load()), std::vector<std::string>{"attention"});
}

TEST(OnnxAttention, ShowsItsScores) {
  const Tensor mask = floats({1, 2}, {0, std::log(3.0f)});
  const auto scores = [&](int mode) {
    return attention({{"qk_matmul_output_mode", mode}}, 1, 2)
        .value(mask)
        .outputs({true, false, false, true})
        .run()
        .at("y3")
        .real;
  };
  expect_near(scores(0), {0, 0});
  expect_near(scores(1), {0, std::log(3.0)});
  expect_near(scores(3), {0.25, 0.75});
  EXPECT_SAYS(scores(4), "its qk_matmul_output_mode is 4");
  EXPECT_SAYS(OneNode("Attention", {}, 23).input({1, 2, 2}).input({1, 2, 2}).input({1, 2, 2}).load(),
              "its attribute 'q_num_heads' is not given");
}

// --- rotary_embedding ---

TEST(OnnxRotaryEmbedding, RotatesPairsByTheirPosition) {
  // A quarter turn at position 1.
  const Tensor cos = floats({2, 1}, {1, 0});
  const Tensor sin = floats({2, 1}, {0, 1});
  const OneNode given = OneNode("RotaryEmbedding", {{"num_heads", 1}}, 23)
                            .value(floats({1, 2, 2}, {1, 2, 3, 4}))
                            .value(cos)
                            .value(sin)
                            .value(longs({1, 2}, {1, 0}));
  EXPECT_EQ(given.y().real, (Reals{-2, 1, 3, 4}));
  EXPECT_EQ(optimized(given.load()), std::vector<std::string>{"rope"});
  // Tables with a row for each element of the batch.
  const OneNode rows = OneNode("RotaryEmbedding", {{"num_heads", 1}}, 23)
                           .value(floats({2, 1, 2}, {1, 2, 3, 4}))
                           .value(floats({2, 1, 1}, {1, 0}))
                           .value(floats({2, 1, 1}, {0, 1}));
  EXPECT_EQ(rows.y().real, (Reals{1, 2, -4, 3}));
  EXPECT_SAYS(OneNode("RotaryEmbedding", {}, 23).input({1, 2, 2}).constant(cos).constant(sin).load(),
              "num_heads");
}

TEST(OnnxRotaryEmbedding, MicrosoftsTakesAFirstPosition) {
  const auto with = [](OnnxGraph::Attributes attributes) {
    return OneNode::microsoft("RotaryEmbedding", std::move(attributes))
        .value(floats({1, 1, 2}, {1, 2}))
        .value(longs({1}, {1}))
        .value(floats({2, 1}, {1, 0}))
        .value(floats({2, 1}, {0, 1}));
  };
  EXPECT_EQ(with({}).y().real, (Reals{-2, 1}));
  EXPECT_SAYS(with({{"is_packed_batching", 1}}).load(), "is_packed_batching is not supported");
}

// --- microsoft_gelu ---

TEST(OnnxMicrosoftGelu, IsFusedWithAProduct) {
  OnnxModel model;
  model.import(kMicrosoft, 1);
  model.graph.input("x", {"n", 8})
      .initializer("w", waves({8, 16}, 0))
      .initializer("bias", waves({16}, 1))
      .node("MatMul", {"x", "w"}, {"product"})
      .node("BiasGelu", {"product", "bias"}, {"y"}, {}, kMicrosoft)
      .output("y");
  EXPECT_EQ(optimized(onnx::parse(model.bytes())).size(), 1u);
  EXPECT_SAYS(OneNode::microsoft("BiasGelu").input({2}).load(), "it has 1 inputs; BiasGelu takes 2 to 2");
}

TEST(OnnxMicrosoftGelu, QuickGeluHasAnAlpha) {
  const OneNode gelu = OneNode::microsoft("QuickGelu", {{"alpha", 2.0}}).value(floats({1}, {0.5f}));
  expect_near(gelu.y().real, {0.5 / (1 + std::exp(-1.0))});
}

// --- skip_norms ---

TEST(OnnxSkipNorms, AreOneNode) {
  const auto skip = [](const std::string& op) {
    return OneNode::microsoft(op)
        .input({"b", "s", 8})
        .input({"b", "s", 8})
        .constant(waves({8}, 0))
        .outputs({true, false, false, true});
  };
  EXPECT_EQ(optimized(skip("SkipLayerNormalization").load()).size(), 1u);
  EXPECT_EQ(optimized(skip("SkipSimplifiedLayerNormalization").load()).size(), 1u);
}

TEST(OnnxSkipNorms, ShowTheirStatistics) {
  const auto of = [](const std::string& op) {
    return OneNode::microsoft(op, {{"epsilon", 0.0}})
        .value(floats({1, 1, 2}, {1, 3}))
        .value(floats({1, 2}, {1, 3}))
        .constant(floats({2}, {1, 1}));
  };
  const auto y = of("SkipLayerNormalization").outputs({true, true, true, true}).run();
  EXPECT_EQ(y.at("y0").real, (Reals{-1, 1}));
  EXPECT_EQ(y.at("y1").real, (Reals{4}));
  EXPECT_EQ(y.at("y2").real, (Reals{0.5}));
  EXPECT_EQ(y.at("y3").real, (Reals{2, 6}));
  EXPECT_SAYS(of("SkipSimplifiedLayerNormalization").outputs({true, true}).load(),
              "its output 1 is not supported");
}

// --- embed_norm ---

TEST(OnnxEmbedNorm, CountsTheWordsThatAreNotMasked) {
  const auto embed = [](const Dims& ids) {
    return OneNode::microsoft("EmbedLayerNormalization")
        .input(ids, ElementType::int32)
        .absent()
        .constant(waves({5, 4}, 0))
        .constant(waves({3, 4}, 1))
        .absent()
        .constant(waves({4}, 2))
        .constant(waves({4}, 3))
        .value(ints({2, 3}, {1, 1, 0, 0, 0, 1}))
        .outputs({true, true});
  };
  const auto y = embed({2, 3}).run({}, {{"x0", ints({2, 3}, {0, 1, 2, 3, 4, 0})}});
  EXPECT_EQ(y.at("y1").ints, (Ints{2, 1}));
  EXPECT_SAYS(embed({3}).load(), "its input_ids [3] are not [batch, sequence]");
}

// --- microsoft_attention ---

OneNode packed_attention(OnnxGraph::Attributes attributes = {}) {
  attributes.emplace_back("num_heads", 2);
  return OneNode::microsoft("Attention", std::move(attributes))
      .input({2, "s", 6})
      .constant(waves({6, 24}, 0))
      .constant(waves({24}, 1));
}

TEST(OnnxMicrosoftAttention, IsOneProductAndOneAttention) {
  const std::vector<std::string> ops = optimized(packed_attention().load());
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[1], "attention");
}

TEST(OnnxMicrosoftAttention, RefusesWhatItCannotDo) {
  EXPECT_SAYS(packed_attention({{"do_rotary", 1}}).load(), "the attribute do_rotary is not supported");
  EXPECT_SAYS(packed_attention().input({2, 1, 9, 9}, ElementType::int32).load(),
              "the mask [2, 1, 9, 9] (input 3) is not supported for a batch of 2");
  EXPECT_SAYS(packed_attention().input({8}, ElementType::int32).load(), "the mask [8] (input 3)");
}

TEST(OnnxMultiHeadAttention, TakesTwoSymbolsForOneSize) {
  const OneNode heads = OneNode::microsoft("MultiHeadAttention", {{"num_heads", 2}})
                            .input({"b", "s", 8})
                            .input({"b", "s", 8})
                            .input({"b", "s", 8})
                            .absent()
                            .input({"b", "total"}, ElementType::int32)
                            .absent()
                            .input({"b", 2, "p", 4})
                            .input({"b", 2, "p", 4});
  const onnx::Model model = heads.load();
  EXPECT_EQ(output_shape(model).text(), "[b, s, 8]");
  EXPECT_NO_THROW(bind_symbols(model.graph, {{"b", 1}, {"s", 2}, {"p", 3}, {"total", 5}}));
  EXPECT_THROW(bind_symbols(model.graph, {{"b", 1}, {"s", 2}, {"p", 3}, {"total", 4}}), Error);
}

TEST(OnnxMultiHeadAttention, RefusesWhatItCannotDo) {
  const auto heads = [](OnnxGraph::Attributes attributes) {
    attributes.emplace_back("num_heads", 2);
    return OneNode::microsoft("MultiHeadAttention", std::move(attributes))
        .input({1, 3, 8})
        .input({1, 5, 8})
        .input({1, 5, 8});
  };
  EXPECT_SAYS(heads({{"unidirectional", 1}}).load(),
              "unidirectional is not supported for 3 queries and 5 new keys");
  OneNode shared = heads({});
  for (int i = 3; i < 8; ++i) shared.absent();
  EXPECT_SAYS(shared.input({1}, ElementType::int32).load(),
              "the input past_sequence_length is not supported");
}

// --- group_query_attention ---

OneNode group_query(const OnnxGraph::Dim& batch, const OnnxGraph::Attributes& more = {}) {
  OnnxGraph::Attributes attributes = {{"num_heads", 4}, {"kv_num_heads", 2}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return OneNode::microsoft("GroupQueryAttention", attributes)
      .input({batch, "s", 16})
      .input({batch, "s", 8})
      .input({batch, "s", 8})
      .input({batch, 2, "p", 4})
      .input({batch, 2, "p", 4})
      .input({batch}, ElementType::int32)
      .input({1}, ElementType::int32)
      .outputs({true, true, true});
}

TEST(OnnxGroupQueryAttention, OfOneSequenceNeedsNoMask) {
  const onnx::Model model = group_query(1, {{"local_window_size", 7}}).load();
  EXPECT_EQ(optimized(model), (std::vector<std::string>{"concat", "concat", "attention"}));
  EXPECT_TRUE(print(model.graph).contains(R"(mask="sliding_window", window=7)")) << print(model.graph);
  EXPECT_EQ(output_shape(model, 2).text(), "[1, 2, p+s, 4]");
  EXPECT_SAYS(group_query(1, {{"qk_output", 1}}).load(), "the attribute qk_output is not supported");
}

// The first `count` tokens of one sequence of a batch.
Tensor part(const Tensor& x, int64_t batch, int64_t count) {
  const int64_t width = x.shape()[2];
  Reals values;
  for (int64_t i = 0; i < count * width; ++i) values.push_back(x.real(batch * x.shape()[1] * width + i));
  return Tensor::from_doubles(DType::f32, {1, count, width}, values);
}

// What ONNX Runtime gives for the padding of a shorter prompt is not defined, so it is not among the
// fixtures.
TEST(OnnxGroupQueryAttention, PaddingOfAPromptChangesNothing) {
  const Tensor none = Tensor::zeros(DType::f32, {2, 2, 0, 4});
  const Tensor q = waves({2, 3, 16}, 0);
  const Tensor k = waves({2, 3, 8}, 1);
  const Tensor v = waves({2, 3, 8}, 2);
  const auto both = group_query("b").run({{"b", 2}, {"s", 3}, {"p", 0}}, {{"x0", q},
                                                                          {"x1", k},
                                                                          {"x2", v},
                                                                          {"x3", none},
                                                                          {"x4", none},
                                                                          {"x5", ints({2}, {2, 1})},
                                                                          {"x6", ints({1}, {3})}});
  const Tensor nothing = Tensor::zeros(DType::f32, {1, 2, 0, 4});
  const auto alone = group_query(1).run({{"s", 2}, {"p", 0}}, {{"x0", part(q, 1, 2)},
                                                               {"x1", part(k, 1, 2)},
                                                               {"x2", part(v, 1, 2)},
                                                               {"x3", nothing},
                                                               {"x4", nothing},
                                                               {"x5", ints({1}, {1})},
                                                               {"x6", ints({1}, {2})}});
  const Reals& all = both.at("y0").real;
  expect_near(Reals(all.begin() + 3 * 16, all.begin() + 5 * 16), alone.at("y0").real);
}

// --- Whole layers ---

onnx::Model fixture(const std::string& name) {
  return onnx::load(formatted("{}/tests/fixtures/onnx/microsoft/{}/model.onnx", RLX_SOURCE_DIR, name));
}

TEST(OnnxLayers, AnEncoderIsFewNodes) {
  EXPECT_EQ(joined(optimized(fixture("layer_encoder"))),
            "gather, add, gather, residual_layer_norm, "     // of embeddings
            "fused_elementwise, sum, "                       // lengths
            "matmul, range, fused_elementwise, attention, "  // with the mask that they make
            "matmul, residual_layer_norm, matmul, matmul, residual_layer_norm");
}

// Where new keys and values go is computed from seqlens_k; all the rest is fused.
TEST(OnnxLayers, ADecoderIsFused) {
  const std::vector<std::string> ops = optimized(fixture("layer_decoder"));
  const auto count = [&](const std::string& name) { return std::ranges::count(ops, name); };
  EXPECT_EQ(count("rope"), 1) << joined(ops);
  EXPECT_EQ(count("attention"), 1) << joined(ops);
  EXPECT_EQ(count("softmax"), 0) << joined(ops);
  EXPECT_EQ(count("matmul"), 6) << joined(ops);
  EXPECT_EQ(count("residual_rms_norm"), 2) << joined(ops);
}

// --- Files that no exporter writes ---

struct Form {
  std::string op, domain;
  OnnxGraph::Attributes attributes;
  std::vector<Dims> inputs;
  std::vector<size_t> integers;  // which of them are not floats

  // No input `without`.
  OneNode node(size_t without = std::string::npos) const {
    OneNode out = domain.empty() ? OneNode(op, attributes, 24) : OneNode::microsoft(op, attributes);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i == without) {
        out.absent();
      } else {
        const bool integer = std::ranges::contains(integers, i);
        out.input(inputs[i], integer ? ElementType::int32 : ElementType::float32);
      }
    }
    return out;
  }
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"Attention",
       "",
       {{"q_num_heads", 4}, {"kv_num_heads", 2}, {"softcap", 1.0}, {"is_causal", 1}},
       {{2, 3, 16}, {2, 3, 8}, {2, 3, 8}, {3, 8}, {2, 2, 5, 4}, {2, 2, 5, 4}},
       {}},
      {"Attention", "", {{"is_causal", 1}}, {{2, 4, 3, 8}, {2, 2, 3, 8}, {2, 2, 3, 8}, {3, 3}}, {}},
      {"RotaryEmbedding", "", {{"num_heads", 2}}, {{2, 3, 8}, {9, 2}, {9, 2}, {2, 3}}, {3}},
      {"RotaryEmbedding", kMicrosoft, {{"num_heads", 2}}, {{2, 3, 8}, {2, 3}, {9, 2}, {9, 2}}, {1}},
      {"Attention",
       kMicrosoft,
       {{"num_heads", 2}, {"unidirectional", 1}},
       {{2, 3, 6}, {6, 24}, {24}, {2, 8}, {2, 2, 2, 5, 4}, {2, 2, 3, 8}},
       {3}},
      {"MultiHeadAttention",
       kMicrosoft,
       {{"num_heads", 2}, {"unidirectional", 1}},
       {{2, 3, 8}, {2, 3, 8}, {2, 3, 8}, {24}, {2, 8}, {1, 2, 3, 8}, {2, 2, 5, 4}, {2, 2, 5, 4}},
       {4}},
      {"GroupQueryAttention",
       kMicrosoft,
       {{"num_heads", 4}, {"kv_num_heads", 2}, {"do_rotary", 1}},
       {{2, 3, 16},
        {2, 3, 8},
        {2, 3, 8},
        {2, 2, 5, 4},
        {2, 2, 5, 4},
        {2},
        {1},
        {9, 2},
        {9, 2},
        {2, 3},
        {1, 1, 3, 8},
        {4}},
       {5, 6, 9}},
      {"EmbedLayerNormalization",
       kMicrosoft,
       {},
       {{2, 3}, {2, 3}, {7, 4}, {5, 4}, {2, 4}, {4}, {4}, {2, 3}, {2, 3}},
       {0, 1, 7, 8}},
      {"SkipLayerNormalization", kMicrosoft, {}, {{2, 3, 4}, {3, 4}, {4}, {4}, {4}}, {}},
      {"SkipSimplifiedLayerNormalization", kMicrosoft, {}, {{2, 3, 4}, {3, 4}, {4}, {4}}, {}},
      {"FusedMatMul", kMicrosoft, {{"transBatchA", 1}, {"transA", 1}}, {{4, 2, 3}, {2, 4, 5}}, {}},
  };
  return all;
}

// The form with one thing in it that is different.
std::vector<Form> mutants(const Form& form) {
  std::vector<Form> out;
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    const auto mutant = [&](const auto& change) {
      out.push_back(form);
      change(out.back().inputs[i]);
    };
    mutant([](Dims& d) { d.clear(); });
    mutant([](Dims& d) { d.insert(d.begin(), 1); });
    mutant([](Dims& d) { d.emplace_back(1); });
    for (size_t axis = 0; axis < form.inputs[i].size(); ++axis) {
      for (const OnnxGraph::Dim& size : Dims{0, 1, 5, 1 << 30, "n"}) mutant([&](Dims& d) { d[axis] = size; });
      mutant([&](Dims& d) { d.erase(d.begin() + static_cast<std::ptrdiff_t>(axis)); });
    }
    out.push_back(form);
    out.back().integers.push_back(i);
  }
  for (size_t i = 0; i < form.attributes.size(); ++i) {
    if (!std::holds_alternative<int>(form.attributes[i].second)) continue;
    for (const int number : {-1, 0, 3, std::numeric_limits<int>::max()}) {
      out.push_back(form);
      out.back().attributes[i].second = number;
    }
  }
  return out;
}

// What is not as it should be becomes a graph that can be verified, or an error about the node.
TEST(OnnxHostile, FormsOfAttention) {
  const auto outcome = [](const OneNode& node) -> std::string {
    try {
      verify(node.load().graph);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  for (const Form& form : forms()) {
    EXPECT_EQ(outcome(form.node()), "");
    int errors = 0;
    const auto judge = [&](const OneNode& node) {
      const std::string said = outcome(node);
      errors += said.empty() ? 0 : 1;
      EXPECT_TRUE(said.empty() || said.contains(form.op)) << said;
      EXPECT_FALSE(said.contains("internal error")) << said;
    };
    for (const Form& mutant : mutants(form)) judge(mutant.node());
    for (size_t i = 0; i < form.inputs.size(); ++i) judge(form.node(i));
    EXPECT_GT(errors, 10) << form.op;
  }
}

}  // namespace
}  // namespace rlx::testing
