// Inference of the ops that move elements: symbolic shapes, and what their errors say.
#include <gtest/gtest.h>

#include "rlx/error.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/message.h"

namespace rlx {
namespace {

TEST(ShapeOps, ReshapeInfersADimOfSymbols) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"batch", "seq", 12});
  EXPECT_EQ(reshape(x, {-1, 12}).shape().text(), Shape({Dim("batch") * Dim("seq"), 12}).text());
  EXPECT_EQ(reshape(x, {"batch", -1, 3, 4}).shape().text(), "[batch, seq, 3, 4]");
  EXPECT_EQ(reshape(x, {"batch", "seq", -1}).shape().text(), "[batch, seq, 12]");
  EXPECT_SAYS(reshape(x, {-1, 5}), "cannot be divided by the 5");
  EXPECT_SAYS(reshape(x, {-1, -1}), "only one can be inferred");
  EXPECT_SAYS(reshape(x, {"batch", "seq", 13}), "has");
  // Another symbol may have the right value; that is only known when it is bound.
  const Value y = reshape(x, {"rows", 12});
  g.output("y", y);
  EXPECT_EQ(bind_symbols(g, {{"batch", 2}, {"seq", 3}, {"rows", 6}}).outputs().size(), 1u);
  EXPECT_SAYS(bind_symbols(g, {{"batch", 2}, {"seq", 3}, {"rows", 7}}),
              "has 72 elements, but [7, 12] has 84");
}

TEST(ShapeOps, TransposeTakesAPermutation) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3, "n"});
  EXPECT_EQ(transpose(x).shape().text(), "[n, 3, 2]");
  EXPECT_EQ(transpose(x, {0, -1, 1}).shape().text(), "[2, n, 3]");
  EXPECT_SAYS(transpose(x, {0, 1}), "2 entries, but the input [2, 3, n] has rank 3");
  EXPECT_SAYS(transpose(x, {0, 1, 1}), "the axis 1 twice");
  EXPECT_SAYS(transpose(x, {0, 1, 3}), "axis 3 is outside rank 3");
}

TEST(ShapeOps, ExpandRepeatsAxesOfLengthOne) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 3});
  EXPECT_EQ(expand(x, {"n", -1}).shape().text(), "[n, 3]");
  EXPECT_EQ(expand(x, {4, "n", 3}).shape().text(), "[4, n, 3]");
  EXPECT_SAYS(expand(x, {1, 6}), "has length 3; it cannot become 6");
  EXPECT_SAYS(expand(x, {3}), "more axes than the target");
}

TEST(ShapeOps, NarrowStaysInside) {
  Graph g;
  const Value x = g.input("x", DType::f32, {8, "n"});
  EXPECT_EQ(slice(x, 0, "pos", 1).shape().text(), "[1, n]");
  EXPECT_EQ(slice(x, 1, 0, "n").shape().text(), "[8, n]");
  EXPECT_EQ(slice(x, 0, 7, 4, -2).shape().text(), "[4, n]");
  EXPECT_SAYS(slice(x, 0, 5, 4),
              "4 elements from 5 on in steps of 1 end at 8, outside the axis, which has length 8");
  EXPECT_SAYS(slice(x, 0, 2, 4, -1), "end at -1");
  EXPECT_SAYS(slice(x, 1, 1, "n"), "outside the axis");
  EXPECT_SAYS(slice(x, 0, -1, 1), "from -1 on");
  EXPECT_SAYS(slice(x, 0, 0, 1, 0), "the step is 0");
}

TEST(ShapeOps, ConcatSplitGatherPadAndStates) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 3});
  const Value y = g.input("y", DType::f32, {2, 3});
  const Value i = g.input("i", DType::i64, {"m"});
  EXPECT_EQ(concat({x, y, y}, 0).shape().text(), (Shape{Dim("n") + 4, 3}).text());
  EXPECT_SAYS(concat({x, y}, 1), "all dims except that of axis 1 must be equal");
  EXPECT_EQ(split(y, 1, {1, 2})[1].shape().text(), "[2, 2]");
  EXPECT_SAYS(split(y, 1, {1, 1}), "add up to 2, but axis 1 of [2, 3] has length 3");
  EXPECT_EQ(gather(x, i, 1).shape().text(), "[n, m]");
  EXPECT_SAYS(gather(x, y), "gather: indices has type f32; it must have an integer type");
  EXPECT_EQ(pad(x, {1, 0}, {2, -1}).shape().text(), (Shape{Dim("n") + 3, 2}).text());
  EXPECT_SAYS(pad(y, {0, -2}, {0, -2}), "cut more from axis 1 than its length 3");
  const Value s = g.state("s", DType::f32, {8, 3});
  EXPECT_EQ(write_state(s, y, 0, "pos").shape().text(), "[8, 3]");
  EXPECT_SAYS(write_state(s, y, 0, 7), "outside the axis, which has length 8");
  EXPECT_SAYS(write_state(s, y, 1, 0), "does not fit the state");
}

}  // namespace
}  // namespace rlx
