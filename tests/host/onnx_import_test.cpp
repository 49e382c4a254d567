// ONNX models become graphs: names, types, sizes, functions, sub-graphs, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "ir/op.h"
#include "ir/reference.h"
#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

using testing::ElementType;
using testing::OnnxGraph;
using testing::OnnxModel;

TEST(OnnxImport, NodesBecomeNodesAndKeepTheirNames) {
  OnnxModel model;
  model.graph.input("x", {2, "n"}).node("Relu", {"x"}, {"y"}).output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.graph.outputs()[0].name, "y");
  EXPECT_EQ(to_text(loaded.graph), R"(graph test {
  %x = input : f32[2, n]
  %y = relu(%x) : f32[2, n]
  output y = %y
}
)");
}

// Not all writers sort. What has to move moves, and nothing else.
TEST(OnnxImport, NodesMayComeInAnyOrder) {
  const auto branch = [](const std::string& op) {
    return OnnxGraph().node("Neg", {"t"}, {"y"}).node(op, {"late"}, {"t"}).output("y");
  };
  OnnxGraph body;
  body.node("Sub", {"h", "b"}, {"r"}).node("Exp", {"a"}, {"h"});
  OnnxModel model;
  model.function("f", "F", {"a", "b"}, {"r"}, body);
  model.graph.input("x", {2}).input("c", {}, ElementType::boolean);
  model.graph.node("If", {"c"}, {"y"}, {{"then_branch", branch("Relu")}, {"else_branch", branch("Abs")}})
      .node("Sin", {"x"}, {"s"})
      .node("F", {"s", "x"}, {"late"}, {}, "f")
      .output("y")
      .output("s");
  const Graph graph = onnx::parse(model.bytes()).graph;
  std::string ops;
  for (const Node& n : graph.nodes()) ops += std::string(n.op->name()) + " ";
  EXPECT_EQ(ops, "input input sin exp sub if ");
  const Tensor x = Tensor::of<float>({2}, {0.5F, -2});
  for (const bool yes : {true, false}) {
    const auto out = run_reference(graph, {{"x", x}, {"c", Tensor::scalar(yes)}}).at("y").real;
    for (size_t i = 0; i < 2; ++i) {
      const double v = x.real(static_cast<int64_t>(i));
      const double late = std::exp(std::sin(v)) - v;
      EXPECT_NEAR(out[i], -(yes ? std::max(late, 0.0) : std::abs(late)), 1e-6);
    }
  }
}

// What the importer says is what the documents say.
TEST(OnnxImport, OpsetsAreStatedTheSameEverywhere) {
  OnnxModel model(1000);
  model.graph.input("x", {2}).node("Relu", {"x"}, {"y"}).output("y");
  const std::string said = testing::message([&] { static_cast<void>(onnx::parse(model.bytes())); });
  const size_t start = said.find("; ") + 2;
  const std::string range = said.substr(start, said.find(" are supported") - start);
  ASSERT_TRUE(range.starts_with("1 to ")) << said;
  for (const char* const file : {"docs/onnx.md", "include/rlx/onnx.h", "CHANGELOG.md"}) {
    std::ifstream in(in_source(file));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_TRUE(text.contains("psets " + range + " ") || text.contains("psets " + range + ","))
        << file << range;
    for (size_t at = text.find("psets 1 to "); at != std::string::npos; at = text.find("psets 1 to ", at + 1))
      EXPECT_EQ(text.substr(at + 6, range.size()), range) << file;
  }
}

TEST(OnnxImport, ASortedFileKeepsItsOrder) {
  OnnxModel model;  // of which sorting by need from the outputs on would make another
  model.graph.input("x", {2}).node("Sin", {"x"}, {"a"}).node("Cos", {"x"}, {"b"}).node("Exp", {"x"}, {"c"});
  model.graph.node("Add", {"c", "a"}, {"d"}).node("Sub", {"d", "b"}, {"y"}).output("y");
  std::string ops;
  for (const Node& n : onnx::parse(model.bytes()).graph.nodes()) ops += std::string(n.op->name()) + " ";
  EXPECT_EQ(ops, "input sin cos exp add sub ");
}

// x halved by a pool and doubled again, as an encoder and its decoder do.
OnnxModel halved_and_doubled(const std::string& size) {
  OnnxModel model;
  model.graph.input("x", {1, 1, size, 4})
      .initializer("scales", Tensor::of<float>({4}, {1, 1, 2, 1}))
      .node("MaxPool", {"x"}, {"half"},
            {{"kernel_shape", std::vector<int64_t>{1, 1}}, {"strides", std::vector<int64_t>{2, 1}}})
      .node("Resize", {"half", "", "scales"}, {"double"}, {{"mode", "nearest"}})
      .node("Add", {"x", "double"}, {"y"})
      .output("y");
  return model;
}

TEST(OnnxImport, ASizeCanStandForASymbol) {
  const OnnxModel model = halved_and_doubled("h");
  EXPECT_SAYS(onnx::parse(model.bytes()), "do not broadcast");
  const onnx::Model any = onnx::parse(model.bytes(), "m", {.symbols = {{"h", 2 * "rows"_dim}}});
  EXPECT_EQ(any.graph.type(any.graph.outputs()[0].value).shape.text(), "[1, 1, 2*rows, 4]");
  const onnx::Model one = onnx::parse(model.bytes(), "m", {.symbols = {{"h", 6}}});
  EXPECT_EQ(one.graph.type(one.graph.outputs()[0].value).shape.text(), "[1, 1, 6, 4]");
  EXPECT_SAYS(onnx::parse(model.bytes(), "m", {.symbols = {{"h", 5}}}), "do not broadcast");
  EXPECT_SAYS(onnx::parse(model.bytes(), "m", {.symbols = {{"w", 6}}}),
              "m: the inputs have no symbol named 'w'; they have: h");
}

TEST(OnnxImport, ASymbolOfAnotherNameIsGivenByTheNameThatItHasHere) {
  const OnnxModel model = halved_and_doubled("p2o.Dynamic.1");
  const onnx::Model loaded = onnx::parse(model.bytes(), "m", {.symbols = {{"p2o_Dynamic_1", 8}}});
  EXPECT_EQ(loaded.graph.type(loaded.graph.outputs()[0].value).shape.text(), "[1, 1, 8, 4]");
}

// Where it cannot be made for any size, the sizes that are known decide; otherwise they change nothing.
TEST(OnnxImport, KnownSizesAreForModelsThatNeedThem) {
  const auto shape_of = [](const onnx::Model& m) {
    return m.graph.type(m.graph.outputs()[0].value).shape.text();
  };
  const OnnxModel model = halved_and_doubled("h");
  const onnx::Model by_size = onnx::parse(model.bytes(), "m", {.sizes = {{"h", 6}, {"w", 3}}});
  EXPECT_EQ(shape_of(by_size), "[1, 1, 6, 4]");
  EXPECT_EQ(by_size.fixed_symbols, (SymbolValues{{"h", 6}}));
  const NamedTensors x = {{"x", Tensor::zeros(DType::f32, {1, 1, 8, 4})}};
  const onnx::Model by_value = onnx::parse(model.bytes(), "m", {.values = x});
  EXPECT_EQ(shape_of(by_value), "[1, 1, 8, 4]");
  EXPECT_EQ(by_value.fixed_symbols, (SymbolValues{{"h", 8}}));
  EXPECT_TRUE(by_value.fixed_inputs.empty());
  EXPECT_EQ(onnx::parse(model.bytes(), "m", {.values = x, .sizes = {{"h", 6}}}).fixed_symbols,
            (SymbolValues{{"h", 6}}));
  EXPECT_SAYS(onnx::parse(model.bytes(), "m", {.sizes = {{"h", 5}}}), "do not broadcast");
  // What LoadOptions::symbols puts in the place of a symbol is not the file's to fix.
  EXPECT_SAYS(onnx::parse(model.bytes(), "m", {.symbols = {{"h", "rows"_dim}}, .sizes = {{"rows", 6}}}),
              "do not broadcast");

  OnnxModel any;
  any.graph.input("x", {"h", 4}).node("Relu", {"x"}, {"y"}).output("y");
  const onnx::Model open = onnx::parse(any.bytes(), "m", {.sizes = {{"h", 6}}});
  EXPECT_EQ(shape_of(open), "[h, 4]");
  EXPECT_TRUE(open.fixed_symbols.empty());
}

// As Paddle's exporter writes a shape: through int32 and back.
TEST(OnnxImport, SizesStaySizesAsInt32) {
  OnnxModel model(9);
  model.graph.input("x", {"n", 2, 3})
      .node("Shape", {"x"}, {"s"})
      .node("Cast", {"s"}, {"s32"}, {{"to", 6}})
      .node("Slice", {"s32"}, {"n32"},
            {{"starts", std::vector<int64_t>{0}}, {"ends", std::vector<int64_t>{1}}})
      .node("Cast", {"n32"}, {"n64"}, {{"to", 7}})
      .initializer("six", Tensor::of<int64_t>({1}, {6}))
      .node("Concat", {"n64", "six"}, {"to"}, {{"axis", 0}})
      .node("Reshape", {"x", "to"}, {"y"})
      .output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.graph.type(loaded.graph.outputs()[0].value).shape.text(), "[n, 6]");
}

// n + n may wrap in int32, so it is no size that is known; the reason is a sentence.
TEST(OnnxImport, ArithmeticOfSizesInInt32IsOfTheRun) {
  OnnxModel model;
  model.graph.input("x", {"n", 2})
      .node("Shape", {"x"}, {"s"}, {{"end", 1}})
      .node("Cast", {"s"}, {"s32"}, {{"to", 6}})
      .node("Add", {"s32", "s32"}, {"twice"})
      .node("Cast", {"twice"}, {"to"}, {{"to", 7}})
      .node("Reshape", {"x", "to"}, {"y"})
      .output("y");
  EXPECT_SAYS(onnx::parse(model.bytes()),
              "the shape depends on the size n, which must be given with the model");
}

TEST(OnnxImport, WeightsInConstantNodesAreCounted) {
  OnnxModel model;
  model.graph.input("x", {3})
      .node("Constant", {}, {"w"}, {{"value", Tensor::of<float>({3}, {1, 2, 3})}})
      .initializer("b", Tensor::of<float>({3}, {1, 2, 3}))
      .node("Mul", {"x", "w"}, {"m"})
      .node("Add", {"m", "b"}, {"y"})
      .output("y");
  const std::string path = ::testing::TempDir() + "/constants.onnx";
  const std::vector<std::byte> bytes = model.bytes();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const onnx::Info info = onnx::inspect(path);
  EXPECT_EQ(info.parameters, 6);
  EXPECT_EQ(info.bytes, 24);
  std::filesystem::remove(path);
}

// --- Sizes that are known ---

TEST(OnnxSizes, ReshapeBeforeOpset5HasItsShapeAsAnAttribute) {
  OnnxModel model(4);
  model.graph.input("x", {2, 3}).node("Shape", {"x"}, {"s"});
  model.graph.node("Reshape", {"s"}, {"y"}, {{"shape", std::vector<int64_t>{2, -1}}});
  model.graph.output("y", ElementType::int64);
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.graph.type(loaded.graph.outputs()[0].value).shape.text(), "[2, 1]");
}

// --- Attributes ---

// What loading a model of one node says.
std::string said_of(const std::string& op, const OnnxGraph::Attributes& attributes, int64_t opset = 21,
                    const std::string& domain = "") {
  OnnxModel model(opset);
  model.import("com.microsoft", 1);
  model.graph.input("x", {2, 3, 4, 5}).node(op, {"x"}, {"y"}, attributes, domain).output("y");
  return testing::message([&] { onnx::parse(model.bytes(), "m"); });
}

TEST(OnnxAttributes, AnAttributeThatTheOpDoesNotHaveIsRefusedByName) {
  EXPECT_EQ(
      said_of("Softmax", {{"axes", 1}}),
      "m: 1 node cannot be imported:\n"
      "  y (Softmax): it has the attribute 'axes', which Softmax (opset 21) does not have; similar: axis");
  // An op that needs no rule of its own.
  EXPECT_EQ(
      said_of("LeakyRelu", {{"alpah", 0.5}}),
      "m: 1 node cannot be imported:\n"
      "  y (LeakyRelu): it has the attribute 'alpah', which LeakyRelu (opset 21) does not have; similar: "
      "alpha");
  EXPECT_EQ(said_of("Relu", {{"slope", 0.5}}),
            "m: 1 node cannot be imported:\n"
            "  y (Relu): it has the attribute 'slope', which Relu (opset 21) does not have");
  EXPECT_EQ(said_of("QuickGelu", {{"aplha", 0.5}}, 21, "com.microsoft"),
            "m: 1 node cannot be imported:\n"
            "  y (com.microsoft.QuickGelu): it has the attribute 'aplha', which QuickGelu (opset 1) does not "
            "have; similar: alpha");
}

TEST(OnnxAttributes, OneThatBecameAnInputIsRefusedFromThenOn) {
  const OnnxGraph::Attributes bounds = {{"min", -1.0}, {"max", 1.0}};
  EXPECT_EQ(said_of("Clip", bounds, 10), "no error");
  EXPECT_TRUE(said_of("Clip", bounds, 11).contains("'min', which Clip (opset 11) does not have"));
}

// Shape arithmetic does not reach the rules.
TEST(OnnxAttributes, NodesThatAreFoldedAreLookedAtToo) {
  const auto said = [](const std::string& op, const OnnxGraph::Attributes& attributes, int64_t opset = 21) {
    OnnxModel model(opset);
    model.graph.input("x", {2, "n"}).node("Shape", {"x"}, {"s"}).node(op, {"s", "s"}, {"t"}, attributes);
    model.graph.output("t", ElementType::int64);
    return testing::message([&] { onnx::parse(model.bytes()); });
  };
  EXPECT_EQ(said("Concat", {{"axis", 0}}), "no error");
  EXPECT_TRUE(said("Concat", {{"axis", 1}}).contains("there is no axis 1 in a tensor of rank 1"));
  EXPECT_TRUE(said("Concat", {{"axes", 0}, {"axis", 0}}).contains("'axes', which Concat"));
  EXPECT_EQ(said("Add", {{"broadcast", 1}}, 6), "no error");
  EXPECT_TRUE(said("Add", {{"broadcast", 1}}, 7).contains("'broadcast', which Add"));
}

TEST(OnnxAttributes, ThoseThatMakeNoDifferencePass) {
  EXPECT_EQ(said_of("Relu", {{"consumed_inputs", std::vector<int64_t>{0}}}, 1), "no error");
  EXPECT_EQ(said_of("Dropout", {{"ratio", 0.5}, {"is_test", 1}}, 6), "no error");
  EXPECT_EQ(said_of("Cast", {{"to", 10}, {"saturate", 1}}), "no error");
  EXPECT_EQ(said_of("MaxPool", {{"kernel_shape", std::vector<int64_t>{2, 2}},
                                {"storage_order", 0},
                                {"auto_pad", "VALID"},
                                {"pads", std::vector<int64_t>{0, 0, 0, 0}}}),
            "no error");
}

TEST(OnnxAttributes, ThoseThatSayHowAWeightOrACacheIsPackedPassIfItIsNot) {
  const auto said = [](const std::string& op, size_t inputs, const OnnxGraph::Attributes& attributes) {
    OnnxModel model;
    model.import("com.microsoft", 1);
    model.graph.input("x", {2, 3}).output("y");
    model.graph.node(op, std::vector<std::string>(inputs, "x"), {"y"}, attributes, "com.microsoft");
    return testing::message([&] { onnx::parse(model.bytes()); });
  };
  EXPECT_TRUE(
      said("MatMulNBits", 3, {{"weight_prepacked", 1}}).contains("weight_prepacked is not supported"));
  EXPECT_TRUE(said("MatMulNBits", 3, {{"weight_prepacked", 0}}).contains("'K' is not given"));
  EXPECT_TRUE(said("GroupQueryAttention", 7, {{"k_quant_type", "PER_TENSOR"}})
                  .contains("k_quant_type='PER_TENSOR' is not supported"));
  EXPECT_TRUE(
      said("GroupQueryAttention", 7, {{"k_quant_type", "NONE"}}).contains("'num_heads' is not given"));
}

TEST(OnnxAttributes, NotesOfToolsPass) {
  for (const std::string name : {"_layer", "", "torch.module", "ai.vendor::stage"})
    EXPECT_EQ(said_of("Relu", {{name, 1}}), "no error") << name;
}

TEST(OnnxAttributes, AFunctionTakesThoseThatItDeclares) {
  const auto said = [](const std::string& attribute) {
    OnnxGraph body;
    body.node("Relu", {"a"}, {"b"});
    OnnxModel model;
    model.import("f", 1).function("f", "F", {"a"}, {"b"}, body, {"scale"});
    model.graph.input("x", {2}).node("F", {"x"}, {"y"}, {{attribute, 1.0}}, "f").output("y");
    return testing::message([&] { onnx::parse(model.bytes(), "m"); });
  };
  EXPECT_EQ(said("scale"), "no error");
  EXPECT_EQ(said("scales"),
            "m: 1 node cannot be imported:\n"
            "  y (f.F): it has the attribute 'scales', which the function 'F' does not have; similar: scale");
}

}  // namespace
}  // namespace rlx
