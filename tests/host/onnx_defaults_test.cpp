// Attributes that are left out have the values that ONNX's text gives them. The inputs are such that another
// value would show, and what is expected is computed by hand from ONNX's formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/message.h"
#include "tests/support/one_node.h"

namespace rlx::testing {
namespace {

// lambd = 0.5, bias = 0: what is not beyond 0.5 is 0, all else stays.
TEST(OnnxDefaults, Shrink) {
  const RefTensor y = OneNode("Shrink").value(floats({6}, {-1, -0.5F, -0.4F, 0.25F, 0.5F, 0.75F})).y();
  EXPECT_EQ(y.real, (Reals{-1, 0, 0, 0, 0, 0.75}));
}

// p = 2, strides and dilations of 1, no padding, the last window whole.
TEST(OnnxDefaults, LpPool) {
  const Tensor x = floats({1, 1, 4}, {3, -4, 0, 12});
  const RefTensor y = OneNode("LpPool", {{"kernel_shape", Ints{2}}}).value(x).y();
  EXPECT_EQ(y.dims, (Ints{1, 1, 3}));
  expect_near(y.real, {5, 4, 12});
  EXPECT_EQ(OneNode("LpPool", {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}}).value(x).y().dims,
            (Ints{1, 1, 1}));
  expect_near(OneNode("GlobalLpPool").value(x).y().real, {13});
}

// One bin, an average of as many samples as the region has rows and columns, a scale of 1. The map is y^2 +
// 10 x at its grid, and linear in between.
TEST(OnnxDefaults, RoiAlign) {
  std::vector<float> map;
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) map.push_back(static_cast<float>(y * y + 10 * x));
  }
  const auto aligned = [&](int64_t opset) {
    return OneNode("RoiAlign", {}, opset)
        .value(floats({1, 1, 4, 4}, map))
        .value(floats({1, 4}, {0.5F, 0.5F, 3.5F, 3.5F}))
        .value(longs({1}, {0}))
        .y();
  };
  // Half a pixel less: samples at 0.5, 1.5 and 2.5.
  EXPECT_EQ(aligned(16).dims, (Ints{1, 1, 1, 1}));
  expect_near(aligned(16).real, {(0.5 + 2.5 + 6.5) / 3 + 15}, 1e-5);
  // Before opset 16, at 1, 2 and 3.
  expect_near(aligned(10).real, {(1.0 + 4 + 9) / 3 + 20}, 1e-5);
}

// An epsilon of 1e-5 beside variances of 0 and of 1e-6.
TEST(OnnxDefaults, EpsilonOfNorms) {
  const Tensor one = floats({1}, {1});
  const Tensor zero = floats({1}, {0});
  const RefTensor batch = OneNode("BatchNormalization")
                              .value(floats({1, 1, 1}, {1}))
                              .value(one)
                              .value(zero)
                              .value(zero)
                              .value(zero)
                              .y();
  expect_near(batch.real, {1 / std::sqrt(1e-5)}, 1e-3);
  const Tensor x = floats({1, 1, 2}, {-1e-3F, 1e-3F});
  const double scaled = 1e-3 / std::sqrt(1e-6 + 1e-5);
  expect_near(OneNode("InstanceNormalization").value(x).value(one).value(zero).y().real, {-scaled, scaled},
              1e-5);
  expect_near(OneNode("GroupNormalization", {{"num_groups", 1}}).value(x).value(one).value(zero).y().real,
              {-scaled, scaled}, 1e-5);
  expect_near(OneNode("LayerNormalization").value(x).value(floats({2}, {1, 1})).y().real, {-scaled, scaled},
              1e-5);
  expect_near(OneNode("RMSNormalization", {}, 23).value(x).value(floats({2}, {1, 1})).y().real,
              {-scaled, scaled}, 1e-5);
}

// What is padded does not count, strides are 1, and the last window is whole.
TEST(OnnxDefaults, AveragePool) {
  const Tensor x = floats({1, 1, 3}, {1, 2, 4});
  const RefTensor padded =
      OneNode("AveragePool", {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 1}}}).value(x).y();
  EXPECT_EQ(padded.real, (Reals{1, 1.5, 3, 4}));
  const Tensor six = floats({1, 1, 6}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(OneNode("AveragePool", {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}}).value(six).y().real,
            (Reals{2, 4}));
  EXPECT_EQ(OneNode("MaxPool", {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}}).value(six).y().real,
            (Reals{3, 5}));
}

// alpha = 1e-4, beta = 0.75, bias = 1: x / (1 + 1e-4 / 1 * x^2)^0.75 with a window of one channel.
TEST(OnnxDefaults, LocalResponseNorm) {
  const RefTensor y = OneNode("LRN", {{"size", 1}}).value(floats({1, 1, 1}, {200})).y();
  expect_near(y.real, {200 / std::pow(1 + 1e-4 * 200 * 200, 0.75)}, 1e-4);
}

// The last axis, and p = 2.
TEST(OnnxDefaults, LpNormalization) {
  expect_near(OneNode("LpNormalization").value(floats({2, 2}, {3, 4, 0, 2})).y().real, {0.6, 0.8, 0, 1});
}

}  // namespace
}  // namespace rlx::testing
