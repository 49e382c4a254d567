// Corners where implementations of ONNX differ, or where nothing is left to compute: what its text says.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/one_node.h"

namespace rlx::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(OnnxChoices, AutomaticPaddingIsNeverNegative) {
  // A kernel that is shorter than the stride needs no padding; nothing is cut off instead.
  const auto pooled = [](const char* op, const char* how) {
    return OneNode(op, {{"auto_pad", how}, {"kernel_shape", Ints{1}}, {"strides", Ints{4}}})
        .value(counting({1, 1, 12}))
        .y()
        .real;
  };
  for (const char* op : {"MaxPool", "AveragePool"}) {
    EXPECT_EQ(pooled(op, "SAME_UPPER"), (Reals{0, 4, 8})) << op;
    EXPECT_EQ(pooled(op, "SAME_LOWER"), (Reals{0, 4, 8})) << op;
  }
  const OneNode conv = OneNode("Conv", {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{3}}})
                           .value(counting({1, 1, 7}))
                           .constant(floats({1, 1, 2}, {1, 10}));
  // Three windows need eight elements: one is added at the end.
  EXPECT_EQ(conv.y().real, (Reals{10, 43, 6}));
}

TEST(OnnxChoices, ARowOfZerosHasNoDirection) {
  const Tensor x = floats({3, 2}, {0, 0, 3, -4, kNan, 0});
  const RefTensor y = OneNode("LpNormalization", {{"axis", 1}}).value(x).y();
  expect_near({y.real.begin() + 2, y.real.begin() + 4}, {0.6, -0.8});
  for (const size_t i : {0U, 1U, 4U, 5U}) EXPECT_TRUE(std::isnan(y.real[i])) << i;
  const RefTensor one = OneNode("LpNormalization", {{"axis", 1}, {"p", 1}}).value(x).y();
  expect_near({one.real.begin() + 2, one.real.begin() + 4}, {3.0 / 7, -4.0 / 7});
}

TEST(OnnxChoices, WhatIsNotAboveAThresholdIsZero) {
  const Tensor x = floats({5}, {kNan, 2, 1, kInf, -kInf});
  EXPECT_EQ(OneNode("ThresholdedRelu").value(x).y().real, (Reals{0, 2, 0, kInf, 0}));
  const Tensor y = floats({4}, {kNan, 2, -2, 0.25F});
  EXPECT_EQ(OneNode("Shrink", {{"lambd", 1.0F}, {"bias", 0.5F}}).value(y).y().real, (Reals{0, 1.5, -1.5, 0}));
}

TEST(OnnxChoices, CornersAlignWhateverTheScaleLeaves) {
  const auto resized = [](const Tensor& x, float scale, const char* mode) {
    return OneNode("Resize", {{"mode", mode}, {"coordinate_transformation_mode", "align_corners"}})
        .value(x)
        .absent()
        .constant(floats({1}, {scale}))
        .y()
        .real;
  };
  // 2 elements become floor(4.6): the last of y is the last of x, as in PyTorch and ONNX Runtime.
  expect_near(resized(floats({2}, {0, 1}), 2.3F, "linear"), {0, 1.0 / 3, 2.0 / 3, 1});
  EXPECT_EQ(resized(floats({2}, {0, 1}), 2.3F, "nearest"), (Reals{0, 0, 1, 1}));
  // With a scale below 1 ONNX's test data (resize_downsample_scales_linear_align_corners) have the fraction:
  // 4 elements become 2.4.
  expect_near(resized(floats({4}, {1, 2, 3, 4}), 0.6F, "linear"), {1, 1 + 3 / 1.4});
}

TEST(OnnxChoices, NothingIsAResultToo) {
  const auto none = [](const Ints& shape) { return Tensor::zeros(DType::f32, shape); };
  const auto dims = [](const OneNode& node) { return node.y().dims; };
  for (const int axis : {0, 1}) {
    for (const char* op : {"Hardmax", "Softmax", "LogSoftmax"}) {
      EXPECT_EQ(dims(OneNode(op, {{"axis", axis}}).value(none({0, 2}))), (Ints{0, 2})) << op << axis;
    }
  }
  const auto compressed = [&](const Tensor& x, const Ints& condition) {
    return OneNode("Compress", {{"axis", 0}})
        .value(x)
        .constant(Tensor::from_ints(DType::bool_, {std::ssize(condition)}, condition));
  };
  EXPECT_EQ(dims(compressed(none({0, 3}), {1, 0})), (Ints{0, 3}));
  EXPECT_EQ(dims(compressed(none({2, 3}), {})), (Ints{0, 3}));
  EXPECT_EQ(compressed(counting({2, 1}), {1, 1, 1, 1}).y().real, (Reals{0, 1}));
  // The length is known in the run only, which has none, or fewer than the condition.
  const OneNode open = OneNode("Compress", {{"axis", 0}})
                           .input({"n", 1})
                           .constant(Tensor::from_ints(DType::bool_, {3}, Ints{1, 0, 1}));
  EXPECT_EQ(open.y({{"n", 0}}, {{"x0", none({0, 1})}}).dims, (Ints{0, 1}));
  EXPECT_EQ(open.y({{"n", 2}}, {{"x0", counting({2, 1})}}).real, (Reals{0}));
  EXPECT_EQ(open.y({{"n", 4}}, {{"x0", counting({4, 1})}}).real, (Reals{0, 2}));
}

}  // namespace
}  // namespace rlx::testing
