// ONNX models become graphs: names, types, sizes, functions, sub-graphs, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/reference.h"
#include "rlx/onnx.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"

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
  EXPECT_EQ(print(loaded.graph), R"(graph test {
  %x = input : f32[2, n]
  %y = relu(%x) : f32[2, n]
  output y = %y
}
)");
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

}  // namespace
}  // namespace rlx
