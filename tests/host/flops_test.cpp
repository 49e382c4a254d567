// How much arithmetic nodes ask for, against numbers counted by hand.
#include "ops/machinery/flops.h"

#include <gtest/gtest.h>

#include "rlx/graph.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

double flops_of(const Graph& graph, const Value& value) {
  return node_flops(graph, graph.node(value.id().node));
}

TEST(Flops, Products) {
  Graph g;
  const Value a = g.input("a", DType::f32, {3, 5, 7});
  const Value b = g.param("b", DType::f32, {7, 11});
  EXPECT_EQ(flops_of(g, matmul(a, b)), 2.0 * 3 * 5 * 7 * 11);
  const Value c = g.input("c", DType::f32, {5, 3, 13});
  EXPECT_EQ(flops_of(g, dot_general(a, c, {0, 1}, {1, 0})), 2.0 * 3 * 5 * 7 * 13);
  EXPECT_EQ(flops_of(g, relu(a)), 0);
}

TEST(Flops, Convolutions) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 4, 9, 9});
  const Value w = g.param("w", DType::f32, {6, 2, 3, 3});
  // 6 filters at 7 x 7 places, each a sum over 2 channels and 3 x 3 elements.
  EXPECT_EQ(flops_of(g, conv(x, w, {}, {.groups = 2})), 2.0 * 2 * 6 * 7 * 7 * 2 * 3 * 3);
  const Value up = g.param("up", DType::f32, {4, 5, 2, 2});
  // Each element of x goes to 5 channels and 2 x 2 places, whatever the stride.
  EXPECT_EQ(flops_of(g, conv_transpose(x, up, {}, {.strides = {2, 2}})), 2.0 * 2 * 4 * 9 * 9 * 5 * 2 * 2);
}

TEST(Flops, AttentionCountsScoresAndValues) {
  Graph g;
  const Value q = g.input("q", DType::f32, {2, 8, 5, 16});
  const Value k = g.input("k", DType::f32, {2, 4, 7, 16});
  const Value v = g.input("v", DType::f32, {2, 4, 7, 12});
  EXPECT_EQ(flops_of(g, attention(q, k, v, {.kv_heads = 4})), 2.0 * 2 * 8 * 5 * 7 * (16 + 12));
}

TEST(Flops, SymbolsHaveNone) {
  Graph g;
  const Value a = g.input("a", DType::f32, {"n", 7});
  const Value b = g.param("b", DType::f32, {7, 11});
  EXPECT_EQ(flops_of(g, matmul(a, b)), 0);
}

}  // namespace
}  // namespace rlx
