// Sizes of resized and transposed images, and what their ops refuse.
#include <gtest/gtest.h>

#include "ops/resampling/resize_taps.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

Value image(Graph& g, Shape shape = {"n", 3, "h", "w"}) { return g.input("x", DType::f32, std::move(shape)); }

std::string resized(const ResizeOptions& options, Shape shape = {"n", 3, "h", "w"}) {
  Graph g;
  return resize(image(g, std::move(shape)), options).shape().text();
}

TEST(Resize, TakesScalesAsFractions) {
  const auto is = [](double scale, int64_t numerator, int64_t denominator) {
    const Fraction f = as_fraction(scale);
    return f.numerator == numerator && f.denominator == denominator;
  };
  EXPECT_TRUE(is(2, 2, 1));
  EXPECT_TRUE(is(0.7, 7, 10));
  EXPECT_TRUE(is(0.7f, 7, 10));
  EXPECT_TRUE(is(1.0 / 3, 1, 3));
  EXPECT_TRUE(is(1.0f / 3, 1, 3));
  EXPECT_TRUE(is(0.015625, 1, 64));
  EXPECT_TRUE(message([] { as_fraction(0); }).contains("the scale 0"));
  EXPECT_TRUE(message([] { as_fraction(-1); }).contains("the scale -1"));
  EXPECT_TRUE(
      message([] { as_fraction(std::numeric_limits<double>::quiet_NaN()); }).contains("the scale nan"));
}

TEST(Resize, SizesMayBeSymbols) {
  EXPECT_EQ(resized({.axes = {2, 3}, .scales = {2, 0.7}}), "[n, 3, 2*h, floor((7*w)/10)]");
  EXPECT_EQ(resized({.axes = {-1}, .sizes = {"v"}}), "[n, 3, h, v]");
  // The scale of both is that of the width.
  EXPECT_EQ(resized({.axes = {2, 3}, .sizes = {30, 20}, .aspect = ResizeAspect::not_larger}, {1, 1, 11, 10}),
            "[1, 1, 22, 20]");
  EXPECT_EQ(resized({.axes = {2, 3}, .sizes = {30, 20}, .aspect = ResizeAspect::not_smaller}, {1, 1, 11, 10}),
            "[1, 1, 30, 27]");
}

TEST(Resize, RefusesWhatItCannotDo) {
  const auto refuses = [](const ResizeOptions& options, std::string_view text) {
    const std::string what = message([&] { resized(options); });
    return what.contains(text) ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << what;
  };
  EXPECT_TRUE(refuses({.axes = {2}, .scales = {2, 2}}, "1 axes need as many scales"));
  EXPECT_TRUE(refuses({.axes = {2, -2}, .scales = {2, 2}}, "twice"));
  EXPECT_TRUE(refuses({.axes = {2}, .scales = {2}, .sizes = {3}}, "1 scales and 1 sizes"));
  EXPECT_TRUE(refuses({.axes = {4}, .scales = {2}}, "4"));
  EXPECT_TRUE(refuses({.axes = {2}, .scales = {2}, .aspect = ResizeAspect::not_larger}, "needs sizes"));
  EXPECT_TRUE(refuses({.axes = {2}, .scales = {2}, .coordinates = ResizeCoordinates::tf_crop_and_resize},
                      "needs 2 numbers in `roi`, not 0"));
  Graph g;
  const Value whole = g.input("x", DType::i32, {3});
  EXPECT_TRUE(message([&] { resize(whole, {.scales = {2}}); }).contains("a float type"));
  EXPECT_EQ(resize(whole, {.scales = {2}, .mode = ResizeMode::nearest}).shape().text(), "[6]");
}

TEST(ConvTranspose, SizesMayBeSymbols) {
  Graph g;
  const Value x = image(g);
  const Value w = g.param("w", DType::f32, {3, 8, 3, 3});
  EXPECT_EQ(conv_transpose(x, w, {}, {.strides = {2, 1}, .pads = {1, 1, 1, 1}, .output_padding = {1, 0}})
                .shape()
                .text(),
            "[n, 8, 2*h, w]");
  EXPECT_TRUE(message([&] { conv_transpose(x, w, {}, {.groups = 2}); }).contains("cannot be divided evenly"));
  const Value wrong = g.param("wrong", DType::f32, {4, 8, 3, 3});
  EXPECT_TRUE(message([&] { conv_transpose(x, wrong); }).contains("takes 4"));
}

TEST(Rearrange, SizesMayBeSymbols) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 12, "h", "w"});
  EXPECT_EQ(depth_to_space(x, 2).shape().text(), "[n, 3, 2*h, 2*w]");
  EXPECT_EQ(space_to_depth(depth_to_space(x, 2), 2).shape().text(), "[n, 12, h, w]");
  EXPECT_EQ(flip(x, {2, 3}).shape().text(), "[n, 12, h, w]");
  EXPECT_EQ(roll(x, {1}, {2}).shape().text(), "[n, 12, h, w]");
  EXPECT_TRUE(message([&] { depth_to_space(x, 5); }).contains("cannot be divided evenly into blocks of 5"));
  EXPECT_TRUE(message([&] { space_to_depth(x, 2); }).contains("cannot be divided evenly"));
  EXPECT_TRUE(message([&] { center_crop_pad(x, {7}, {2}); }).contains("depends on symbols"));
}

}  // namespace
}  // namespace rlx::testing
