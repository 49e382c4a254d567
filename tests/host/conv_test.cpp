// Convolutions: shapes, what is refused, and the reference against PyTorch.
#include "ops/convolution/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/format.h"
#include "ir/reference.h"
#include "ir/tolerance.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/compare.h"
#include "tests/support/conv_cases.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

std::string shape(const Shape& x, const Shape& w, const ConvOptions& options = {}) {
  Graph g;
  const Value y = conv(g.input("x", DType::f32, x), g.input("w", DType::f32, w), {}, options);
  return g.type(y.id()).shape.text();
}

// --- shapes ---

TEST(Conv, Shapes) {
  EXPECT_EQ(shape({2, 3, 9}, {4, 3, 3}), "[2, 4, 7]");
  EXPECT_EQ(shape({2, 3, 9, 8}, {4, 3, 3, 3}, {.pads = {1, 1, 1, 1}}), "[2, 4, 9, 8]");
  EXPECT_EQ(shape({2, 3, 9, 8}, {4, 3, 3, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}), "[2, 4, 5, 4]");
  EXPECT_EQ(shape({2, 3, 9, 8}, {4, 3, 3, 3}, {.dilations = {4, 2}}), "[2, 4, 1, 4]");
  EXPECT_EQ(shape({1, 6, 5, 6, 7}, {8, 3, 1, 2, 3}, {.pads = {0, 1, 2, 3, 4, 5}, .groups = 2}),
            "[1, 8, 8, 10, 12]");
  EXPECT_EQ(shape({2, 9, 8, 3}, {4, 3, 3, 1}, {.strides = {1, 3}, .layout = ConvLayout::channels_last}),
            "[2, 7, 3, 4]");
  EXPECT_EQ(shape({1, 2, 3, 3}, {4, 2, 5, 5}, {.pads = {1, 1, 1, 1}}), "[1, 4, 1, 1]");
  EXPECT_EQ(shape({1, 1, 10}, {1, 1, 2}, {.strides = {7}}), "[1, 1, 2]");
  EXPECT_EQ(shape({0, 3, 9}, {4, 3, 3}), "[0, 4, 7]");
  EXPECT_EQ(shape({1, 0, 9}, {4, 0, 3}), "[1, 4, 7]");
  EXPECT_EQ(shape({1, 3, 9}, {0, 3, 3}), "[1, 0, 7]");
  EXPECT_EQ(shape({1, 3, 0}, {2, 3, 1}, {.pads = {1, 1}}), "[1, 2, 2]");
}

TEST(Conv, SymbolicShapes) {
  EXPECT_EQ(shape({"n", 3, "h", "w"}, {4, 3, 3, 3}, {.pads = {1, 1, 0, 1}}), "[n, 4, h-1, w]");
  EXPECT_EQ(shape({"n", "h", 3}, {4, 3, 3}, {.strides = {2}, .layout = ConvLayout::channels_last}),
            "[n, floor((h+1)/2)-1, 4]");
  EXPECT_EQ(shape({1, 3, Dim("h") * 2}, {4, 3, 2}, {.strides = {2}}), "[1, 4, h]");
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 3, "h"});
  const Value y = conv(x, g.input("w", DType::f32, {4, 3, 3}), {}, {.strides = {2}, .pads = {1, 1}});
  g.output("y", y);
  const Graph bound = bind_symbols(g, {{"n", 2}, {"h", 7}});
  EXPECT_EQ(bound.type(bound.outputs()[0].value).shape.text(), "[2, 4, 4]");
  EXPECT_SAYS(bind_symbols(parse_graph("graph g { %x = input : f32[1,1,h] %w = input : f32[1,1,5] %y = "
                                       "conv(%x, %w) output y = %y }"),
                           {{"h", 4}}),
              "it covers 5 elements (size 5, dilation 1), but there are 4 (4, padded by 0 and 0)");
}

TEST(Conv, TypeIsThatOfTheEpilogue) {
  const Graph g = parse_graph(
      "graph g { %x = input : f16[1,2,5] %w = input : f16[3,2,3] %b = input : f16[3]\n"
      "%y = conv(%x, %w, %b) %z = conv(%x, %w, none, %b) {epilogue=\"less($0,1)\"} output y = %y }");
  EXPECT_EQ(g.type(ValueId{g.find("y"), 0}).dtype, DType::f16);
  EXPECT_EQ(g.type(ValueId{g.find("z"), 0}).dtype, DType::bool_);
}

TEST(Conv, TextAndBuilderAgree) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 5, 6, 4});
  const Value w = g.param("w", DType::f32, {6, 2, 3, 3});
  g.output("y", conv(x, w, g.param("b", DType::f32, {6}),
                     {.strides = {2, 1},
                      .dilations = {1, 2},
                      .pads = {1, 0, 1, 0},
                      .groups = 2,
                      .layout = ConvLayout::channels_last})
                    .named("y"));
  EXPECT_TRUE(
      to_text(g).contains("conv(%x, %w, %b) {strides=[2, 1], dilations=[1, 2], pads=[1, 0, 1, 0], "
                          "groups=2, layout=\"channels_last\"} : f32[1, 3, 2, 6]"))
      << to_text(g);
  EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
}

TEST(Conv, SizesOfThreeAxes) {
  Conv op;
  op.strides = {2, 1};
  op.pads = {1, 2, 3, 4};
  op.groups = 2;
  op.layout = ConvLayout::channels_last;
  const ConvSizes s = conv_sizes(op, {5, 9, 8, 6}, {4, 3, 3, 2});
  using Three = std::array<int64_t, 3>;
  EXPECT_EQ(s.batch, 5);
  EXPECT_EQ(s.channels, 3);
  EXPECT_EQ(s.filters, 2);
  EXPECT_EQ(s.in, (Three{1, 9, 8}));
  EXPECT_EQ(s.kernel, (Three{1, 3, 2}));
  EXPECT_EQ(s.out, (Three{1, 6, 13}));
  EXPECT_EQ(s.stride, (Three{1, 2, 1}));
  EXPECT_EQ(s.dilation, (Three{1, 1, 1}));
  EXPECT_EQ(s.before, (Three{0, 1, 2}));
  EXPECT_EQ(s.after, (Three{0, 3, 4}));
  const View v = conv_view(View::contiguous({5, 9, 8, 6}), ConvLayout::channels_last);
  EXPECT_EQ(v.dims, (std::vector<int64_t>{5, 6, 1, 9, 8}));
  EXPECT_EQ(v.strides, (std::vector<int64_t>{432, 1, 0, 48, 6}));
}

// --- what is refused ---

Graph graph_of(const std::string& call, const std::string& leaves) {
  return parse_graph("graph g {\n" + leaves + "\n%y = " + call + "\noutput y = %y\n}");
}

TEST(Conv, RefusesShapesThatDoNotMatch) {
  EXPECT_SAYS(shape({3, 9}, {4, 3}),
              "conv: x [3, 9] has rank 2; it must have 1 to 3 spatial axes, so a rank of 3 to 5");
  EXPECT_SAYS(shape({1, 1, 2, 2, 2, 2}, {1, 1, 2, 2, 2, 2}), "conv: x [1, 1, 2, 2, 2, 2] has rank 6");
  EXPECT_SAYS(shape({1, 3, 9}, {4, 3, 3, 3}),
              "conv: x [1, 3, 9] has rank 3 and the weight [4, 3, 3, 3] has rank 4; they must be equal");
  EXPECT_SAYS(shape({1, 3, 9}, {"m", 3, 3}), "conv: the sizes of the weight [m, 3, 3] must be numbers");
  EXPECT_SAYS(shape({1, 4, 9}, {5, 2, 3}, {.groups = 2}),
              "conv: the 5 filters of the weight [5, 2, 3] cannot be divided evenly among 2 groups");
  EXPECT_SAYS(shape({1, 5, 9}, {4, 2, 3}, {.groups = 2}),
              "conv: x [1, 5, 9] has 5 channels, but the weight [4, 2, 3] takes 2 in each of 2 groups");
  EXPECT_SAYS(shape({1, "c", 9}, {4, 2, 3}), "conv: x [1, c, 9] has c channels, but the weight");
  EXPECT_SAYS(shape({1, 5, 9}, {4, 5, 3}, {.layout = ConvLayout::channels_last}),
              "conv: x [1, 5, 9] has 9 channels");
  EXPECT_SAYS(shape({1, 5, 9, 9}, {4, 5, 3, 0}),
              "conv: the weight [4, 5, 3, 0] has a kernel of size 0 along axis 3");
  EXPECT_SAYS(
      shape({1, 5, 9, 4}, {4, 5, 3, 3}, {.dilations = {1, 3}, .pads = {0, 1, 0, 1}}),
      "conv: the kernel does not fit along spatial axis 1: it covers 7 elements (size 3, dilation 3), "
      "but there are 6 (4, padded by 1 and 1)");
}

TEST(Conv, RefusesAttributes) {
  const auto with = [](const ConvOptions& options) { return shape({1, 4, 9, 9}, {4, 4, 3, 3}, options); };
  EXPECT_SAYS(with({.strides = {2}}), "conv: `strides` has 1 numbers; for this rank of x it needs 2");
  EXPECT_SAYS(with({.dilations = {1, 1, 1}}),
              "conv: `dilations` has 3 numbers; for this rank of x it needs 2");
  EXPECT_SAYS(with({.pads = {1, 1}}), "conv: `pads` has 2 numbers; for this rank of x it needs 4");
  EXPECT_SAYS(with({.strides = {1, 0}}), "conv: `strides` contains 0; its numbers must be at least 1");
  EXPECT_SAYS(with({.dilations = {-1, 1}}), "conv: `dilations` contains -1; its numbers must be at least 1");
  EXPECT_SAYS(with({.pads = {0, 0, 0, -2}}), "conv: `pads` contains -2; its numbers must be at least 0");
  EXPECT_SAYS(with({.groups = 0}), "conv: the number of groups is 0; it must be at least 1");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_SAYS(with({.pads = {kMost, 0, 0, 0}}), "does not fit in 64 bits");
  EXPECT_SAYS(with({.dilations = {1, kMost}}), "does not fit in 64 bits");
  EXPECT_SAYS(graph_of("conv(%x, %w) {layout=\"nchw\"}", "%x = input : f32[1,1,3] %w = input : f32[1,1,1]"),
              "channels_first");
}

TEST(Conv, RefusesInputs) {
  const std::string leaves =
      "%x = input : f32[1,2,5] %w = input : f32[3,2,3] %b = input : f32[3] %h = input : f16[3] %i = input : "
      "i32[3,2,3] %u = input : u8[3,2,3] %e = input : f32[1,3,3] %t = input : f32[2,3,3]";
  EXPECT_SAYS(graph_of("conv(%x)", leaves),
              "conv: takes x, a weight, a bias and the inputs of its epilogue, not 1");
  EXPECT_SAYS(graph_of("conv(%x, none)", leaves), "conv: w is not optional");
  EXPECT_SAYS(graph_of("conv(%u, %u)", leaves), "conv: x has type u8; it must have a float type or i32");
  EXPECT_SAYS(graph_of("conv(%x, %i)", leaves), "conv: x and w have the types f32 and i32");
  EXPECT_SAYS(graph_of("conv(%x, %w, %h)", leaves), "conv: x and bias have the types f32 and f16");
  EXPECT_SAYS(graph_of("conv(%x, %w, %e)", leaves),
              "conv: the bias has the shape [1, 3, 3]; 3 filters need [3]");
  EXPECT_SAYS(graph_of("conv(%x, %w, %b, %e)", leaves),
              "conv: takes 3 inputs when it has no epilogue, not 4");
  EXPECT_SAYS(graph_of("conv(%x, %w, %b, %t) {epilogue=\"add($0,$1)\"}", leaves),
              "conv: the epilogue's input 3 has the shape [2, 3, 3], which does not broadcast to the result "
              "[1, 3, 3]");
  EXPECT_SAYS(graph_of("conv(%x, %w, %b) {epilogue=\"add($0,$1)\"}", leaves), "$1");
}

// --- the reference ---

TEST(Conv, ReferenceIsPyTorchs) {
  const std::vector<ConvCase> cases = conv_cases();
  EXPECT_EQ(cases.size(), 16u);
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c.name);
    const RefTensor y = run_reference(c.graph, c.inputs).at("y");
    ASSERT_EQ(y.dims, c.y.shape());
    const RefTensor want = RefTensor::from(c.y);
    ASSERT_TRUE(within(y.real, want.real, 1e-7, 1e-7));  // the file has results in double, rounded once
  }
}

// Zeros outside x are multiplied like any others, so that a pad can become part of a convolution.
TEST(Conv, PaddingIsAPadBefore) {
  const auto inf = std::numeric_limits<float>::infinity();
  const NamedTensors inputs = {{"x", Tensor::of<float>({1, 1, 3}, {1, 2, 3})},
                               {"w", Tensor::of<float>({2, 1, 2}, {inf, 1, 10, 1})}};
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 1, 3});
  const Value w = g.input("w", DType::f32, {2, 1, 2});
  g.output("inside", conv(x, w, {}, {.pads = {1, 1}}));
  g.output("before", conv(pad(x, {0, 0, 1}, {0, 0, 1}), w));
  const auto out = run_reference(g, inputs);
  const std::vector<double>& y = out.at("inside").real;
  EXPECT_EQ(out.at("inside").dims, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ((std::vector<double>(y.begin() + 1, y.end())),
            (std::vector<double>{inf, inf, inf, 1, 12, 23, 30}));
  for (size_t i = 1; i < y.size(); ++i) EXPECT_EQ(y[i], out.at("before").real[i]);
  EXPECT_TRUE(std::isnan(out.at("before").real[0]));
}

// Without channels there is nothing but the bias; without images, nothing.
TEST(Conv, ReferenceOfNothing) {
  Graph g;
  const Value bias = g.constant(Tensor::of<float>({2}, {3, 4}));
  g.output("y", conv(g.input("x", DType::f32, {1, 0, 3}), g.input("w", DType::f32, {2, 0, 2}), bias));
  g.output("z", conv(g.input("u", DType::f32, {0, 1, 3}), g.input("v", DType::f32, {2, 1, 2}), bias));
  const NamedTensors inputs = {{"x", Tensor::zeros(DType::f32, {1, 0, 3})},
                               {"w", Tensor::zeros(DType::f32, {2, 0, 2})},
                               {"u", Tensor::zeros(DType::f32, {0, 1, 3})},
                               {"v", Tensor::zeros(DType::f32, {2, 1, 2})}};
  const auto out = run_reference(g, inputs);
  EXPECT_EQ(out.at("y").real, (std::vector<double>{3, 3, 4, 4}));
  EXPECT_EQ(out.at("z").elements(), 0);
}

TEST(Conv, ReferenceRunsEverySample) {
  const OpInfo& info = op_table().at("conv");
  for (const std::string& text : info.samples) {
    SCOPED_TRACE(text);
    for (const DType type : types_of(info)) {
      const Sample s = make_sample(info, text, type, Reach::direct, 1);
      const auto out = run_reference(s.graph, s.inputs);
      EXPECT_EQ(out.at("y").dims, s.graph.type(s.graph.outputs()[0].value).shape.values());
    }
  }
}

TEST(Conv, ToleranceCountsTheTermsOfAGroup) {
  Conv op;
  op.groups = 2;
  const std::vector<TensorType> types = {{DType::f16, {1, 8, 9, 9}}, {DType::f16, {4, 4, 3, 5}}};
  EXPECT_EQ(op.tolerance(types).terms, 60);
  EXPECT_EQ(op.tolerance(types).ulps, 2);
  op.epilogue = ExprAttr::parse("relu($0)");
  EXPECT_GT(op.tolerance(types).ulps, epsilon(DType::f16) / epsilon(DType::f32));
}

}  // namespace
}  // namespace rlx::testing
