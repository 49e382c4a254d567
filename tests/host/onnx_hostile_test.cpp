// Files that no exporter writes: each is an error with a sentence, in little time and memory, or a graph that
// is valid. Here: bytes, tensors, names and order. Others: onnx_hostile_sizes_test.cpp (numbers that are
// absurd), onnx_hostile_amounts_test.cpp (depth, and much of everything), onnx_hostile_files_test.cpp
// (external data).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <protozero/pbf_writer.hpp>
#include <random>
#include <span>

#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "tests/host/onnx_hostile.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"
#include "tests/support/onnx_seeds.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;
using testing::ElementType;
using testing::onnx_tensor;
using testing::OnnxGraph;
using testing::OnnxModel;
using testing::OnnxSeed;
using testing::hostile::Ints;
using testing::hostile::ints;
using testing::hostile::kLargest;
using testing::hostile::kSmallest;
using testing::hostile::says;

// An error of the file, or a graph that is valid and whose text reads as the same graph.
void expect_safe(std::vector<std::byte> bytes) {
  try {
    const onnx::Model model = onnx::parse(std::move(bytes));
    verify(model.graph);
    const std::string text = to_text(model.graph);
    EXPECT_EQ(to_text(parse_graph(text)), text);
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
    std::ifstream in(fs::path(in_source("tests/fuzz/corpus/onnx")) / (seed.name + ".onnx"), std::ios::binary);
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

TEST(OnnxHostile, BytesThatAreNoModel) {
  const auto says = [](std::string_view bytes) {
    const auto all = std::as_bytes(std::span(bytes));
    return testing::message([&] { onnx::parse({all.begin(), all.end()}, "some.onnx"); });
  };
  for (const std::string_view bytes : {"\x0a\x05hello", "\x89PNG\r\n\x1a\n", "PK\x03\x04\x14",
                                       "\x7f"
                                       "ELF\x02\x01"})
    EXPECT_TRUE(says(bytes).starts_with("some.onnx: this is not an ONNX model")) << says(bytes);
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(4096, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    // A field 7, a graph, may come first by chance: one of 256 does.
    if ((static_cast<unsigned char>(bytes[0]) & 0x7f) == 0x3a) continue;
    EXPECT_FALSE(says(bytes).contains("of the wrong kind")) << says(bytes);
  }
  // What is cut off is a model, but not a whole one.
  const std::vector<std::byte> whole = testing::onnx_seeds()[0].bytes;
  EXPECT_SAYS(onnx::parse({whole.begin(), whole.end() - 3}), "not a whole ONNX file");
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

// docs/arithmetic.md: weights of double are rounded to f32, and infinite beyond it.
TEST(OnnxHostile, DoublesAreRounded) {
  std::vector<double> wide(100, 0.1);
  wide[1] = -1e300;
  const auto bytes = std::as_bytes(std::span(wide));
  const std::string raw(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  OnnxModel model;
  model.graph.initializer_message(onnx_tensor("w", ElementType::float64, {100}, raw))
      .node("Identity", {"w"}, {"y"})
      .output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.weights.at("w").real(0), 0.1F);
  EXPECT_EQ(loaded.weights.at("w").real(1), -HUGE_VAL);
}

// A function's constants are one param, however often it is called.
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
  EXPECT_EQ(loaded.weights.size(), 1u);
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

TEST(OnnxHostile, NodesThatNeedEachOther) {
  OnnxModel cycle;
  cycle.graph.input("x", {2}).node("Add", {"x", "b"}, {"a"}).node("Neg", {"a"}, {"b"}).output("b");
  EXPECT_FILE_SAYS(cycle,
                   "2 nodes are a cycle, in which each needs an output of the next: 'a' (Add), 'b' (Neg)");

  OnnxModel own;
  own.graph.input("x", {2}).node("Add", {"x", "y"}, {"y"}).output("y");
  EXPECT_FILE_SAYS(own, "the node 'y' (Add) needs an output of its own: it is a cycle");

  OnnxModel around;  // by what a sub-graph reads
  const OnnxGraph branch = OnnxGraph().node("Neg", {"late"}, {"z"}).output("z");
  around.graph.input("x", {2}).input("c", {}, ElementType::boolean);
  around.graph.node("If", {"c"}, {"y"}, {{"then_branch", branch}, {"else_branch", branch}});
  around.graph.node("Relu", {"y"}, {"late"}).output("late");
  EXPECT_FILE_SAYS(around,
                   "2 nodes are a cycle, in which each needs an output of the next: 'y' (If), 'late' (Relu)");

  OnnxModel inside;
  inside.graph.input("x", {2}).input("c", {}, ElementType::boolean);
  const OnnxGraph turning = OnnxGraph().node("Add", {"x", "q"}, {"p"}).node("Neg", {"p"}, {"q"}).output("q");
  inside.graph.node("If", {"c"}, {"y"}, {{"then_branch", turning}, {"else_branch", turning}}).output("y");
  EXPECT_FILE_SAYS(inside, "2 nodes are a cycle");

  OnnxModel functions;
  functions.function("f", "F", {"x"}, {"q"}, turning);
  functions.graph.input("x", {2}).node("F", {"x"}, {"y"}, {}, "f").output("y");
  EXPECT_FILE_SAYS(functions, "2 nodes are a cycle");

  OnnxModel large;
  large.graph.input("x", {2});
  for (int i = 0; i < 20; ++i)
    large.graph.node("Neg", {"n" + std::to_string((i + 1) % 20)}, {"n" + std::to_string(i)});
  large.graph.output("n0");
  EXPECT_FILE_SAYS(large, "'n7' (Neg) and 12 more");
}

TEST(OnnxHostile, NamesThatNothingMakes) {
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
  const std::string text = to_text(loaded.graph);
  EXPECT_EQ(to_text(parse_graph(text)), text);
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
  EXPECT_EQ(loaded.graph.symbols().size(), 6u) << to_text(loaded.graph);
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

// --- Attributes ---

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

}  // namespace
}  // namespace rlx
