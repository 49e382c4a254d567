// Files that no exporter writes: each is an error with a sentence, in little time and memory, or a graph that
// is valid.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <protozero/pbf_writer.hpp>

#include "rlx/onnx.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"
#include "tests/support/onnx_seeds.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;
using testing::ElementType;
using testing::onnx_tensor;
using testing::OnnxGraph;
using testing::OnnxModel;
using testing::OnnxSeed;
using Ints = std::vector<int64_t>;

constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

Tensor ints(const Ints& values) { return Tensor::of({std::ssize(values)}, values); }
Tensor whole(int64_t value) { return Tensor::scalar(value); }

std::string says(const OnnxModel& model) {
  return testing::message([&] { static_cast<void>(onnx::parse(model.bytes())); });
}

#define EXPECT_FILE_SAYS(model, text)         \
  do {                                        \
    const std::string said = says(model);     \
    EXPECT_TRUE(said.contains(text)) << said; \
  } while (false)

// An error of the file, or a graph that is valid and whose text reads as the same graph.
void expect_safe(std::vector<std::byte> bytes) {
  try {
    const onnx::Model model = onnx::parse(std::move(bytes));
    verify(model.graph);
    const std::string text = print(model.graph);
    EXPECT_EQ(print(parse_graph(text)), text);
  } catch (const Error& e) {
    EXPECT_NE(e.kind(), ErrorKind::internal) << e.what();
    EXPECT_FALSE(std::string_view(e.what()).empty());
  }
}

// --- Bytes ---

TEST(OnnxHostile, SeedsOfTheFuzzerAreImported) {
  const std::vector<OnnxSeed> seeds = testing::onnx_seeds();
  EXPECT_GE(seeds.size(), 25u);
  for (const OnnxSeed& seed : seeds) {
    SCOPED_TRACE(seed.name);
    std::ifstream in(fs::path(RLX_SOURCE_DIR) / "tests/fuzz/corpus/onnx" / (seed.name + ".onnx"),
                     std::ios::binary);
    const std::string stored((std::istreambuf_iterator<char>(in)), {});
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(stored)), seed.bytes))
        << "run rlx_make_onnx_corpus";
    EXPECT_NO_THROW(onnx::parse(seed.bytes, seed.name, {.values = {{"shape", ints({2, 3})}}}));
  }
}

TEST(OnnxHostile, TruncatedAtEveryByte) {
  for (const OnnxSeed& seed : testing::onnx_seeds()) {
    SCOPED_TRACE(seed.name);
    for (size_t n = 0; n < seed.bytes.size(); ++n)
      expect_safe({seed.bytes.begin(), seed.bytes.begin() + static_cast<std::ptrdiff_t>(n)});
  }
  EXPECT_SAYS(onnx::parse({}), "the file is empty");
}

TEST(OnnxHostile, AnyByteChanged) {
  for (const OnnxSeed& seed : testing::onnx_seeds()) {
    SCOPED_TRACE(seed.name);
    for (size_t i = 0; i < seed.bytes.size(); ++i) {
      for (const int change : {1, 8, 0x80}) {
        std::vector<std::byte> bytes = seed.bytes;
        bytes[i] ^= static_cast<std::byte>(change);
        expect_safe(std::move(bytes));
      }
    }
  }
}

TEST(OnnxHostile, FieldsOfTheWrongKind) {
  OnnxModel model;
  std::string node;
  pbf_writer(node).add_int64(4, 7);  // the op as a number
  std::string graph;
  pbf_writer(graph).add_message(1, node);
  model.graph.fields(graph).output("y");
  EXPECT_FILE_SAYS(model, "field 4 of a message is of the wrong kind");
}

TEST(OnnxHostile, ManyEmptyMessages) {
  std::string graph;
  for (int i = 0; i < 2'100'000; ++i) graph += std::string_view("\x0a\x00", 2);  // an empty node
  OnnxModel model;
  model.graph.fields(graph);
  EXPECT_FILE_SAYS(model, "more than 2000000 nodes, tensors, attributes");
}

// --- Tensors ---

TEST(OnnxHostile, TensorsWhoseSizesLie) {
  const auto with = [](const std::string& message) {
    OnnxModel model;
    model.graph.initializer_message(message).node("Identity", {"w"}, {"y"}).output("y");
    return model;
  };
  const auto tensor = [&](const Ints& dims, const std::string& raw, ElementType type = ElementType::float32) {
    return with(onnx_tensor("w", type, dims, raw));
  };
  EXPECT_FILE_SAYS(tensor({2}, "1234567"), "the tensor 'w' of type float[2] needs 8 bytes, but has 7");
  EXPECT_FILE_SAYS(tensor({2}, "123456789"), "needs 8 bytes, but has 9");
  EXPECT_FILE_SAYS(tensor({3}, "1", ElementType::int4), "needs 2 bytes, but has 1");
  EXPECT_FILE_SAYS(tensor({int64_t{1} << 60}, ""), "the tensor 'w' has 1152921504606846976 elements");
  EXPECT_FILE_SAYS(tensor({kLargest, 1}, ""), "the tensor 'w' has");
  EXPECT_FILE_SAYS(tensor({int64_t{1} << 40, int64_t{1} << 40}, ""), "more elements than 64 bits can count");
  EXPECT_FILE_SAYS(tensor({-1}, ""), "a dimension of -1");
  EXPECT_FILE_SAYS(tensor({-2, -2}, "1234567812345678"), "a dimension of -2");
  EXPECT_FILE_SAYS(tensor({kSmallest}, ""), "a dimension of -9223372036854775808");
  EXPECT_FILE_SAYS(tensor(Ints(65, 1), "1234"), "the tensor 'w' has 65 axes; 64 are the most");
  EXPECT_FILE_SAYS(tensor({1}, "\2", ElementType::boolean), "neither 0 nor 1");
  EXPECT_FILE_SAYS(tensor({1}, "12345678", ElementType::uint64), "does not fit in 32 bits");

  std::string varints;
  pbf_writer message(varints);
  message.add_int64(1, 1);
  message.add_int32(2, static_cast<int32_t>(ElementType::int64));
  message.add_string(8, "w");
  message.add_bytes(7, "\x81\x81");
  EXPECT_FILE_SAYS(with(varints), "has data that is cut off");
  EXPECT_FILE_SAYS(with(""), "an initializer has no name");
}

// Protobuf aligns nothing: weights are views of memory at any address.
TEST(OnnxHostile, DataIsNotAligned) {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 0.5F);
  std::vector<double> wide(values.begin(), values.end());
  const auto raw = [](const auto& from) {
    const auto bytes = std::as_bytes(std::span(from));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (size_t length = 1; length <= 8; ++length) {
    const std::string name(length, 'w');
    OnnxModel model;
    model.graph.initializer_message(onnx_tensor(name, ElementType::float32, {100}, raw(values)))
        .initializer_message(onnx_tensor("wide", ElementType::float64, {100}, raw(wide)))
        .node("Add", {name, "wide"}, {"y"})
        .output("y");
    const onnx::Model loaded = onnx::parse(model.bytes());
    for (const std::string& weight : {name, std::string("wide")}) {
      const Tensor& tensor = loaded.weights.at(weight);
      EXPECT_EQ(tensor.to_vector<float>(), values);
      EXPECT_EQ(tensor.real(99), 99.5);
    }
  }
}

// A function's constants are read once, however often it is called.
TEST(OnnxHostile, ConstantsOfFunctionsAreShared) {
  OnnxGraph body;
  body.node("Constant", {}, {"c"}, {{"value", Tensor::zeros(DType::f32, {2, 100})}})
      .node("Add", {"a", "c"}, {"b"});
  OnnxModel model;
  model.function("f", "F", {"a"}, {"b"}, body);
  model.graph.input("x", {2, 100})
      .node("F", {"x"}, {"h"}, {}, "f")
      .node("F", {"h"}, {"y"}, {}, "f")
      .output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  ASSERT_EQ(loaded.weights.size(), 2u);
  EXPECT_EQ(loaded.weights.begin()->second.bytes().data(), loaded.weights.rbegin()->second.bytes().data());
}

// --- Names and order ---

TEST(OnnxHostile, NamesTwice) {
  OnnxModel outputs;
  outputs.graph.input("x", {2}).node("Relu", {"x"}, {"y"}).node("Neg", {"x"}, {"y"}).output("y");
  EXPECT_FILE_SAYS(outputs, "the name 'y' is the output of two nodes");

  OnnxModel shadow;
  shadow.graph.input("x", {2}).node("Relu", {"x"}, {"x"}).output("x");
  EXPECT_FILE_SAYS(shadow, "the name 'x' is the output of two nodes");

  OnnxModel inputs;
  inputs.graph.input("x", {2}).input("x", {3}).node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_FILE_SAYS(inputs, "there are two inputs 'x'");

  OnnxModel initializers;
  initializers.graph.initializer("w", ints({1})).initializer("w", ints({2})).output("w");
  EXPECT_FILE_SAYS(initializers, "there are two initializers 'w'");

  OnnxModel declared;
  declared.graph.input("x", {2}).node("Relu", {"x"}, {"y"}).output("y").output("y");
  EXPECT_FILE_SAYS(declared, "there are two outputs 'y'");

  OnnxGraph body;
  body.node("Relu", {"a"}, {"b"});
  OnnxModel functions;
  functions.function("f", "F", {"a"}, {"b"}, body).function("f", "F", {"a"}, {"b"}, body);
  functions.graph.input("x", {2}).node("F", {"x"}, {"y"}, {}, "f").output("y");
  EXPECT_FILE_SAYS(functions, "there are two functions 'F'");
}

TEST(OnnxHostile, NodesOutOfOrder) {
  OnnxModel late;
  late.graph.input("x", {2}).node("Relu", {"h"}, {"y"}).node("Neg", {"x"}, {"h"}).output("y");
  EXPECT_FILE_SAYS(late, "y (Relu): its input 'h' is not the output of any node before it");

  OnnxModel cycle;
  cycle.graph.input("x", {2}).node("Add", {"x", "b"}, {"a"}).node("Neg", {"a"}, {"b"}).output("b");
  EXPECT_FILE_SAYS(cycle, "a (Add): its input 'b' is not the output of any node before it");

  OnnxModel own;
  own.graph.input("x", {2}).node("Add", {"x", "y"}, {"y"}).output("y");
  EXPECT_FILE_SAYS(own, "y (Add): its input 'y' is not the output of any node before it");

  OnnxModel none;
  none.graph.input("x", {2}).node("Add", {"x"}, {"y"}).output("y");
  EXPECT_FILE_SAYS(none, "y (Add)");

  OnnxModel nothing;
  nothing.graph.input("x", {2}).node("Relu", {"x"}, {"y"});
  EXPECT_FILE_SAYS(nothing, "the model has no outputs");

  OnnxModel unmade;
  unmade.graph.input("x", {2}).output("z");
  EXPECT_FILE_SAYS(unmade, "the output 'z' is not the output of any node");
}

TEST(OnnxHostile, NamesThatAreNoWords) {
  const std::vector<std::string> names = {
      "a\nb", "say \"x\"", "back\\slash", "%x", "none", "\xff\xfe", std::string("nul\0inside", 10),
      "a b",  "über",      "1",           "{}",
  };
  OnnxModel model;
  for (const std::string& name : names) {
    model.graph.input(name, {2, name});
    model.graph.node("Relu", {name}, {name + " "}).output(name + " ");
  }
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.graph.outputs().size(), names.size());
  EXPECT_EQ(loaded.graph.outputs()[0].name, "a\nb ");
  const std::string text = print(loaded.graph);
  EXPECT_EQ(print(parse_graph(text)), text);
  // Names of sizes that are no symbols become different ones, and a number is a number.
  EXPECT_EQ(loaded.graph.symbols().size(), names.size() - 1) << text;
}

TEST(OnnxHostile, SizesWithoutANameAreUnlikeThoseWithOne) {
  OnnxModel model;
  const std::string type("\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x00\x0a\x00", 15);  // x: float[?, ?]
  std::string field;
  pbf_writer(field).add_message(11, type);
  model.graph.fields(field).input("y", {"x_0", "a b", "a_b", "a-"}).output("x").output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.graph.symbols().size(), 6u) << print(loaded.graph);
}

TEST(OnnxHostile, EmptyAndLongNames) {
  OnnxModel input;
  input.graph.input("", {2}).output("y");
  EXPECT_FILE_SAYS(input, "an input has no name");

  OnnxModel output;
  output.graph.input("x", {2}).output("");
  EXPECT_FILE_SAYS(output, "the output '' is not the output of any node");

  OnnxModel op;
  op.graph.input("x", {2}).node("", {"x"}, {"y"}).output("y");
  EXPECT_FILE_SAYS(op, "there is no such op");

  OnnxModel long_name;
  long_name.graph.input("x", {2}).node("Relu", {"x"}, {std::string(2000, 'y')});
  EXPECT_FILE_SAYS(long_name, "yyyy...' has 2000 bytes; 1024 are the most");
  EXPECT_LT(says(long_name).size(), 200u);

  OnnxModel many;
  many.graph.input("x", {2});
  for (int i = 0; i < 20000; ++i) many.graph.node("NoSuchOp", {"x"}, {"y" + std::to_string(i)});
  many.graph.output("y1");
  EXPECT_FILE_SAYS(many, "20000 nodes cannot be imported");
  EXPECT_FILE_SAYS(many, "and 19900 more");
}

// The names of nodes and of values are apart in a file, and those of a body are its own.
TEST(OnnxHostile, OneNameForANodeAndAWeight) {
  const Tensor large = Tensor::full(DType::f32, {2, 100}, 0.5);
  OnnxGraph then_branch;
  then_branch.node("Neg", {"x"}, {"w"})
      .node("Add", {"w", "same"}, {"s"})
      .node("Mul", {"s", "c"}, {"t"})
      .output("t");
  OnnxGraph else_branch;
  else_branch.node("Relu", {"x"}, {"u"}).node("Add", {"u", "c"}, {"v"}).output("v");
  OnnxModel model;
  model.graph.input("x", {2, 100})
      .input("go", {}, ElementType::boolean)
      .node("Identity", {"x"}, {"h"})
      .initializer("w0", large)
      .node("Constant", {}, {"c"}, {{"value", large}})
      .node("Identity", {"w0"}, {"same"})
      .node("If", {"go"}, {"y"}, {{"then_branch", then_branch}, {"else_branch", else_branch}})
      .output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  verify(loaded.graph);
  EXPECT_EQ(loaded.weights.size(), 2u);
}

// --- Sizes ---

TEST(OnnxHostile, InputsOfAbsurdSizes) {
  const auto input = [](const std::vector<OnnxGraph::Dim>& dims) {
    OnnxModel model;
    model.graph.input("x", dims).node("Relu", {"x"}, {"y"}).output("y");
    return says(model);
  };
  EXPECT_TRUE(input({-1}).contains("the input 'x' has a dimension of -1")) << input({-1});
  EXPECT_TRUE(input({int64_t{1} << 60}).contains("larger than 64 bits can count"))
      << input({int64_t{1} << 60});
  EXPECT_TRUE(input({kLargest, kLargest}).contains("larger than 64 bits")) << input({kLargest, kLargest});
  EXPECT_TRUE(input(std::vector<OnnxGraph::Dim>(100, 1)).contains("100 axes; 64 are the most"));
  EXPECT_TRUE(input({"-3"}).contains("the result has the shape [-3]")) << input({"-3"});
}

// One node of x: float[2, 3] and constants.
std::string node_says(const std::string& op, const std::vector<Tensor>& constants,
                      const OnnxGraph::Attributes& attributes = {}, int64_t opset = 21) {
  OnnxModel model(opset);
  model.graph.input("x", {2, 3});
  std::vector<std::string> inputs = {"x"};
  for (const Tensor& value : constants) {
    inputs.push_back("c" + std::to_string(inputs.size()));
    model.graph.initializer(inputs.back(), value);
  }
  if (op == "ConstantOfShape" || op == "Range" || op == "Div" || op == "Mod") inputs.erase(inputs.begin());
  model.graph.node(op, inputs, {"y"}, attributes).output("y");
  return says(model);
}

#define EXPECT_NODE_SAYS(said, text) EXPECT_TRUE(std::string(said).contains(text)) << (said)

TEST(OnnxHostile, OpsThatAskForAbsurdSizes) {
  const int64_t huge = int64_t{1} << 60;
  EXPECT_NODE_SAYS(node_says("ConstantOfShape", {ints({huge})}), "larger than 64 bits can count");
  EXPECT_NODE_SAYS(node_says("ConstantOfShape", {ints({-1})}), "its shape has a dimension of -1");
  EXPECT_NODE_SAYS(node_says("ConstantOfShape", {ints({-1})}, {{"value", ints({1})}}), "a dimension is -1");
  EXPECT_NODE_SAYS(node_says("Expand", {ints({huge, 2, 3})}), "larger than 64 bits can count");
  EXPECT_NODE_SAYS(node_says("Expand", {ints({-4, 2, 3})}), "it repeats -4 times");
  EXPECT_NODE_SAYS(node_says("Tile", {ints({huge, huge})}), "larger than 64 bits can count");
  EXPECT_NODE_SAYS(node_says("Tile", {ints({-1, 1})}), "it repeats -1 times");
  EXPECT_NODE_SAYS(node_says("Pad", {ints({kSmallest, 0, 0, 0})}), "it pads by -9223372036854775808");
  EXPECT_NODE_SAYS(node_says("Pad", {ints({kLargest, 0, kLargest, 0})}), "it pads by 9223372036854775807");
  Ints axes(98, 1);
  axes.insert(axes.end(), {2, 3});
  EXPECT_NODE_SAYS(node_says("Reshape", {ints(axes)}), "100 axes; 64 are the most");
  EXPECT_NODE_SAYS(node_says("Reshape", {ints({huge, huge})}), "y (Reshape)");
  EXPECT_NODE_SAYS(node_says("Unsqueeze", {}, {{"axes", Ints(200000, 0)}}, 11), "an axis twice");
  EXPECT_NODE_SAYS(node_says("Range", {whole(0), whole(kLargest), whole(1)}), "does not fit in the 32 bits");
  EXPECT_NODE_SAYS(node_says("Range", {whole(0), whole(kSmallest), whole(kSmallest)}), "no error");
  EXPECT_NODE_SAYS(node_says("Range", {whole(0), whole(1), whole(0)}), "step");
  EXPECT_NODE_SAYS(node_says("Range", {ints({}), whole(1), whole(1)}), "0 elements");
  EXPECT_NODE_SAYS(node_says("Range", {Tensor::scalar(0.F), Tensor::scalar(1e30F), Tensor::scalar(1e-30F)}),
                   "it goes from 0 to");
  EXPECT_NODE_SAYS(node_says("Div", {whole(kSmallest), whole(-1)}), "does not fit in 64 bits");
  EXPECT_NODE_SAYS(node_says("Mod", {whole(kSmallest), whole(-1)}), "no error");
  EXPECT_NODE_SAYS(node_says("Div", {whole(1), whole(0)}), "it divides 1 by 0");
  EXPECT_NODE_SAYS(node_says("Slice", {ints({0}), ints({2}), ints({0}), ints({kSmallest})}),
                   "its step on axis 0");
  EXPECT_NODE_SAYS(node_says("Slice", {ints({kSmallest}), ints({kLargest}), ints({0}), ints({kLargest})}),
                   "no error");
  EXPECT_NODE_SAYS(node_says("Split", {}, {{"num_outputs", 1 << 30}}), "outputs");
  EXPECT_NODE_SAYS(node_says("ReduceMean", {ints({5})}), "there is no axis 5");
}

TEST(OnnxHostile, ConvolutionsWithoutAStep) {
  const auto conv = [](const OnnxGraph::Attributes& attributes) {
    OnnxModel model;
    model.graph.input("x", {1, 1, 8})
        .initializer("w", Tensor::zeros(DType::f32, {1, 1, 3}))
        .node("Conv", {"x", "w"}, {"y"}, attributes)
        .output("y");
    return says(model);
  };
  EXPECT_NODE_SAYS(conv({{"auto_pad", "SAME_UPPER"}, {"strides", Ints{0}}}), "its stride on axis 2 is 0");
  EXPECT_NODE_SAYS(conv({{"auto_pad", "SAME_UPPER"}, {"dilations", Ints{kLargest}}}),
                   "does not fit in 64 bits");
  EXPECT_NODE_SAYS(conv({{"dilations", Ints{kLargest}}}), "y (Conv)");
  EXPECT_NODE_SAYS(conv({{"pads", Ints{kLargest, kLargest}}}), "y (Conv)");
  EXPECT_NODE_SAYS(conv({{"group", 0}}), "y (Conv)");
}

// A fill is one value, whatever its size; only a device would have to hold it.
TEST(OnnxHostile, ALargeFillIsOneValue) {
  OnnxModel model;
  model.graph.initializer("to", ints({int64_t{1} << 40}))
      .node("ConstantOfShape", {"to"}, {"y"}, {{"value", Tensor::of({1}, {2.5F})}})
      .output("y");
  EXPECT_EQ(print(onnx::parse(model.bytes()).graph), R"(graph test {
  %constant.0 = constant {value=tensor f32[] (2.5)} : f32[]
  %expand.1 = expand(%constant.0) {shape=[1099511627776]} : f32[1099511627776]
  output y = %expand.1
}
)");
}

TEST(OnnxHostile, LoopsOfAbsurdLengths) {
  OnnxGraph body;
  body.input("i", {}, ElementType::int64)
      .input("on", {}, ElementType::boolean)
      .input("v", {3})
      .node("Add", {"v", "v"}, {"next"})
      .output("on", ElementType::boolean)
      .output("next")
      .output("next");
  const auto loop = [&](const Tensor& trips) {
    OnnxModel model;
    model.graph.input("x", {3})
        .initializer("trips", trips)
        .node("Loop", {"trips", "", "x"}, {"last", "all"}, {{"body", body}})
        .output("last")
        .output("all");
    return says(model);
  };
  EXPECT_NODE_SAYS(loop(whole(int64_t{1} << 40)), "no error");
  EXPECT_NODE_SAYS(loop(whole(kLargest)), "larger than 64 bits can count");
  EXPECT_NODE_SAYS(loop(whole(-5)), "the number of iterations is -5");
  EXPECT_NODE_SAYS(loop(ints({})), "has 0 elements");
}

TEST(OnnxHostile, ScansOfNothing) {
  OnnxGraph body;
  body.input("a", {3}).output("a");
  for (const int64_t count : {int64_t{0}, int64_t{7}, kSmallest, kLargest}) {
    OnnxModel model;
    std::string attribute;
    pbf_writer writer(attribute);
    writer.add_string(1, "num_scan_inputs");
    writer.add_int64(3, count);
    writer.add_int32(20, 2);
    std::string body_attribute;
    pbf_writer graph(body_attribute);
    graph.add_string(1, "body");
    graph.add_message(6, body.message());
    graph.add_int32(20, 5);
    std::string node;
    pbf_writer fields(node);
    fields.add_string(1, "x");
    fields.add_string(2, "y");
    fields.add_string(4, "Scan");
    fields.add_message(5, attribute);
    fields.add_message(5, body_attribute);
    std::string field;
    pbf_writer(field).add_message(1, node);
    model.graph.input("x", {3}).fields(field).output("y");
    EXPECT_FILE_SAYS(model, "it scans ");
  }
}

TEST(OnnxHostile, VersionsOfOps) {
  for (const int64_t version : {int64_t{0}, int64_t{27}, int64_t{1} << 40, kSmallest}) {
    OnnxModel model(version);
    model.graph.input("x", {2}).node("Relu", {"x"}, {"y"}).output("y");
    EXPECT_FILE_SAYS(model, "the model uses version " + std::to_string(version) + " of ONNX's ops; 1 to 26");
  }
}

// --- Depth and amount ---

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
  const std::string text = print(loaded.graph);
  EXPECT_EQ(print(parse_graph(text)), text);
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

TEST(OnnxHostile, AttributesThatReferToNothing) {
  // The default of a function's attribute is itself a reference: to a tensor that nobody gives.
  std::string attribute;
  pbf_writer fields(attribute);
  fields.add_string(1, "t");
  fields.add_int32(20, 4);
  fields.add_string(21, "other");
  std::string function;
  pbf_writer f(function);
  f.add_string(1, "F");
  f.add_string(5, "b");
  f.add_string(10, "f");
  f.add_message(11, attribute);
  OnnxModel model;
  model.graph.node("F", {}, {"y"}, {}, "f").output("y");
  std::string bytes;
  pbf_writer(bytes).add_message(25, function);
  std::vector<std::byte> all = model.bytes();
  const auto more = std::as_bytes(std::span(bytes));
  all.insert(all.end(), more.begin(), more.end());
  EXPECT_SAYS(onnx::parse(all), "the default of an attribute of the function 'F' is a reference");
}

// --- External data ---

class OnnxHostileFiles : public ::testing::Test {
 protected:
  OnnxHostileFiles() : top_(fs::temp_directory_path() / ("rlx_onnx_hostile_" + std::to_string(getpid()))) {
    fs::create_directories(folder());
    std::ofstream(folder() / "data.bin") << "12345678";
    std::ofstream(top_ / "secret.bin") << "12345678";
  }
  ~OnnxHostileFiles() override { fs::remove_all(top_); }

  fs::path folder() const { return top_ / "model"; }

  // Loads a model whose weight, float[2], is at this place.
  std::string says(const std::string& location,
                   const std::vector<std::pair<std::string, std::string>>& more = {}) {
    std::string tensor;
    pbf_writer fields(tensor);
    const int64_t two = 2;
    fields.add_packed_int64(1, &two, &two + 1);
    fields.add_int32(2, 1);
    fields.add_string(8, "w");
    fields.add_int32(14, 1);
    std::vector<std::pair<std::string, std::string>> entries = more;
    entries.emplace_back("location", location);
    for (const auto& [key, value] : entries) {
      pbf_writer entry(fields, 13);
      entry.add_string(1, key);
      entry.add_string(2, value);
    }
    OnnxModel model;
    model.graph.initializer_message(tensor).node("Identity", {"w"}, {"y"}).output("y");
    const std::vector<std::byte> bytes = model.bytes();
    const fs::path path = folder() / "m.onnx";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return testing::message([&] { static_cast<void>(onnx::load(path.string())); });
  }

  fs::path top_;
};

TEST_F(OnnxHostileFiles, LengthsAndOffsets) {
  EXPECT_EQ(says("data.bin"), "no error");
  EXPECT_EQ(says("data.bin", {{"offset", "0"}, {"length", "8"}}), "no error");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "4"}}), "needs 8 bytes, but has 4");
  EXPECT_NODE_SAYS(says("data.bin", {{"length", "9"}}),
                   "has 9 bytes from byte 0 of 'data.bin' on, which has only 8");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "18446744073709551615"}, {"length", "8"}}),
                   "which has only 8");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "8"}, {"length", "18446744073709551615"}}),
                   "which has only 8");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "-1"}}), "the offset '-1', which is not a number of bytes");
  EXPECT_NODE_SAYS(says("data.bin", {{"length", "99999999999999999999999"}}),
                   "which is not a number of bytes");
  EXPECT_NODE_SAYS(says("nothing.bin"), "the tensor 'w': the file");
}

TEST_F(OnnxHostileFiles, NothingOutsideTheFolder) {
  EXPECT_NODE_SAYS(says((top_ / "secret.bin").string()), "must lead to a file below the folder");
  EXPECT_NODE_SAYS(says("../secret.bin"), "must lead to a file below the folder");
  EXPECT_NODE_SAYS(says("a/../../secret.bin"), "must lead to a file below the folder");
  EXPECT_NODE_SAYS(says(""), "must lead to a file below the folder");
  fs::create_symlink(top_ / "secret.bin", folder() / "link.bin");
  EXPECT_NODE_SAYS(says("link.bin"), "which is not below the folder");
  fs::create_directory_symlink(top_, folder() / "up");
  EXPECT_NODE_SAYS(says("up/secret.bin"), "which is not below the folder");
  fs::create_symlink("data.bin", folder() / "inside.bin");
  EXPECT_EQ(says("inside.bin"), "no error");
  EXPECT_SAYS(onnx::parse([&] {
                says("data.bin");
                std::ifstream in(folder() / "m.onnx", std::ios::binary);
                const std::string text((std::istreambuf_iterator<char>(in)), {});
                const auto bytes = std::as_bytes(std::span(text));
                return std::vector<std::byte>(bytes.begin(), bytes.end());
              }()),
              "the model was not read from a folder");
}

TEST_F(OnnxHostileFiles, OnlyRegularFiles) {
  fs::create_directory(folder() / "sub");
  EXPECT_NODE_SAYS(says("sub"), "is not a regular file");
  EXPECT_NODE_SAYS(says("."), "is not a regular file");
  ASSERT_EQ(mkfifo((folder() / "pipe").c_str(), 0600), 0);
  EXPECT_NODE_SAYS(says("pipe"), "is not a regular file");  // and nobody waits for a writer
  EXPECT_SAYS(onnx::load((folder() / "pipe").string()), "is not a regular file");
  EXPECT_SAYS(onnx::load("/dev/zero"), "is not a regular file");
  fs::create_symlink("/dev/zero", folder() / "zero");
  EXPECT_NODE_SAYS(says("zero"), "which is not below the folder");
}

TEST_F(OnnxHostileFiles, InspectSaysTheSame) {
  EXPECT_EQ(says("data.bin"), "no error");
  EXPECT_EQ(onnx::inspect((folder() / "m.onnx").string()).parameters, 2);
  OnnxModel model;
  model.graph.initializer_message(onnx_tensor("w", ElementType::float32, {kLargest, kLargest}, ""))
      .output("w");
  const std::vector<std::byte> bytes = model.bytes();
  std::ofstream(folder() / "m.onnx", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const onnx::Info info = onnx::inspect((folder() / "m.onnx").string());
  ASSERT_FALSE(info.problems.empty());
  EXPECT_TRUE(info.problems[0].reason.contains("64 bits")) << info.problems[0].reason;
}

}  // namespace
}  // namespace rlx
