// ONNX files with numbers that are absurd: sizes of inputs, what ops are asked for, trips of loops, versions.
#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "tests/host/onnx_hostile.h"
#include "tests/support/onnx_model.h"

namespace rlx {
namespace {

using protozero::pbf_writer;
using testing::ElementType;
using testing::OnnxGraph;
using testing::OnnxModel;
using testing::hostile::Ints;
using testing::hostile::ints;
using testing::hostile::kLargest;
using testing::hostile::kSmallest;
using testing::hostile::says;
using testing::hostile::whole;

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
  EXPECT_TRUE(input({"-3"}).contains("the tensor has the shape [-3]; sizes cannot be negative"))
      << input({"-3"});
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
  EXPECT_EQ(to_text(onnx::parse(model.bytes()).graph), R"(graph test {
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
  EXPECT_NODE_SAYS(loop(whole(-5)), "no error");  // nor an iteration
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

}  // namespace
}  // namespace rlx
