// Sizes that only the run knows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/reference.h"
#include "ir/run_sizes.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/run_sizes.h"
#include "tests/support/graph_texts.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

TEST(NonZero, FollowsOnnx) {
  const Graph g = checked(R"(
    %x = input : f32[2, 3]
    %r = nonzero(%x) {count=dim(n)}
    output y = %r
    output n = %r:1
  )");
  expect_round_trip(g);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto got = run_reference(g, {{"x", floats({2, 3}, {0, nan, -0.0F, 3, 0, -1})}});
  EXPECT_EQ(got.at("y").dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(got.at("y").ints, (std::vector<int64_t>{0, 1, 1, 1, 0, 2}));
  EXPECT_EQ(got.at("n").ints, std::vector<int64_t>{3});
  EXPECT_EQ(run_symbols(g).at("n").capacity.text(), "6");
  EXPECT_EQ(run_symbols(g).at("n").node, g.find("r"));
  const auto none = run_reference(g, {{"x", floats({2, 3}, {0, 0, 0, 0, 0, 0})}});
  EXPECT_EQ(none.at("y").dims, (std::vector<int64_t>{2, 0}));
  // A scalar has no axes.
  const Graph scalar =
      checked("%x = input : f32[] %r = nonzero(%x) {count=dim(n)} output y = %r output n = %r:1");
  EXPECT_EQ(run_reference(scalar, {{"x", floats({}, {5})}}).at("y").dims, (std::vector<int64_t>{0, 1}));
}

TEST(NonZero, WithoutASymbolHasItsUpperBound) {
  const Graph g = checked(R"(
    %x = input : i32[4]
    %r = nonzero(%x)
    %few = nonzero(%x) {count=2}
    output n = %r:1
    output y = %r counted n along 1
    output all = %r
    output few = %few
  )");
  const auto got = run_reference(g, {{"x", Tensor::of<int32_t>({4}, {0, 7, 7, 7})}});
  EXPECT_EQ(got.at("y").ints, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(got.at("all").ints, (std::vector<int64_t>{1, 2, 3, 0}));
  EXPECT_EQ(got.at("few").ints, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(run_symbols(g).empty());
}

TEST(NonZero, WhatFollowsHasTheTrueSize) {
  // The elements of x that are greater than 0: their mean, and themselves doubled, in a branch.
  const Graph g = checked(R"(
    %x = input : f32[batch, 3]
    %flat = reshape(%x) {shape=[batch*3]}
    %m = greater(%flat, 0)
    %r = nonzero(%m) {count=dim(n)}
    %i = reshape(%r) {shape=[n]}
    %v = gather(%flat, %i) : f32[n]
    %mean = mean(%v)
    %c = constant {value=tensor bool[] fill 1}
    %y = if(%c, %v) {then=graph a { %v = input : f32[n] %y = mul(%v, 2) output y = %y },
                     else=graph b { %v = input : f32[n] output y = %v }}
    %ones = constant {value=tensor f32[] fill 1}
    %row = expand(%ones) {shape=[n]}
    output y = %y
    output mean = %mean
    output row = %row
  )");
  expect_round_trip(g);
  EXPECT_EQ(g.symbols(), (std::set<std::string>{"batch", "n"}));
  EXPECT_EQ(run_symbols(g).at("n").capacity.text(), "3*batch");
  for (const Graph& graph : {g, optimize(expand_ops(g), {})}) {
    verify(graph);
    const auto got =
        run_reference(bind_symbols(graph, {{"batch", 2}}), {{"x", floats({2, 3}, {1, -1, 2, -2, 6, -3})}});
    EXPECT_EQ(got.at("mean").real, std::vector<double>{3}) << to_text(graph);
    EXPECT_EQ(got.at("y").real, (std::vector<double>{2, 4, 12}));
    EXPECT_EQ(got.at("row").dims, std::vector<int64_t>{3});
  }
  // At its capacity the graph is static: what memory is planned for.
  const Graph largest = bind_symbols(g, {{"batch", 2}, {"n", 6}});
  EXPECT_TRUE(largest.is_static());
  verify(largest);
}

TEST(NonZero, HasACapacity) {
  const Graph g = checked(R"(
    symbol n <= 2
    %x = input : i32[5]
    %r = nonzero(%x) {count=dim(n)}
    output y = %r
  )");
  EXPECT_EQ(run_symbols(g).at("n").capacity.text(), "2");
  EXPECT_EQ(run_reference(g, {{"x", Tensor::of<int32_t>({5}, {0, 0, 1, 0, 1})}}).at("y").ints,
            (std::vector<int64_t>{2, 4}));
  EXPECT_SAYS(run_reference(g, {{"x", Tensor::of<int32_t>({5}, {1, 0, 1, 0, 1})}}),
              "node 'r' (nonzero) makes the symbol 'n' 3, more than its capacity 2");
}

TEST(NonZero, InsideABody) {
  // How many elements are above i, for i from 0 to 3.
  const Graph g = checked(R"(
    %x = input : f32[5]
    %r = loop(none, none, %x) {exactly=4, body=graph b {
      %i = input : i32[]
      %x = input : f32[5]
      %f = cast(%i) {to=f32}
      %m = greater(%x, %f)
      %k = nonzero(%m) {count=dim(n)}
      %v = gather(%x, %k)
      %s = sum(%v)
      %go = constant {value=tensor bool[] fill 1}
      output go = %go
      output n = %k:1
      output s = %s
    }}
    output y = %r
    output s = %r:1
  )");
  const std::map<std::string, RunSymbol> symbols = run_symbols(g);
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_NE(symbols.at("n").graph, &g);
  for (const Graph& graph : {g, optimize(expand_ops(g), {})}) {
    const auto got = run_reference(graph, {{"x", floats({5}, {0.5, 1.5, 2.5, 3.5, 1.25})}});
    EXPECT_EQ(got.at("y").ints, (std::vector<int64_t>{5, 4, 2, 1}));
    EXPECT_EQ(got.at("s").real, (std::vector<double>{9.25, 8.75, 6, 3.5}));
  }
}

TEST(GivenSymbols, AreDeterminedOnceAndBeforeTheirUse) {
  EXPECT_SAYS(checked("%x = input : f32[3] %a = nonzero(%x) {count=dim(n)} %b = nonzero(%x) {count=dim(n)} "
                      "output a = %a output b = %b"),
              "the nodes 'a' and 'b' both determine the symbol 'n'");
  EXPECT_SAYS(checked("%x = input : f32[3] %z = input : f32[n] %a = nonzero(%x) {count=dim(n)} output a = %a "
                      "output z = %z"),
              "the input 'z' is f32[n], but the symbol 'n' has no value before node 'a' has run");
  EXPECT_SAYS(checked("%x = input : f32[3] %z = state : f32[n] %a = nonzero(%x) {count=dim(n)} output a = %a "
                      "output z = %z"),
              "the state 'z' is f32[n]");
  EXPECT_SAYS(
      checked("%x = input : f32[3] %o = constant {value=tensor f32[] fill 1} %e = expand(%o) {shape=[n]} "
              "%a = nonzero(%x) {count=dim(n)} output a = %a output e = %e"),
      "node 'e' (expand) uses the symbol 'n', which node 'a' determines later");
  EXPECT_SAYS(checked("%x = input : f32[3] %a = nonzero(%x) {count=dim(n+1)} output a = %a"),
              "nonzero: the attribute count is n+1; it must be a symbol");
  EXPECT_SAYS(checked(R"(
    %c = input : bool[]
    %x = input : f32[3]
    %r = if(%c, %x) {then=graph a { %x = input : f32[3] %k = nonzero(%x) {count=dim(n)} output k = %k },
                     else=graph b { %x = input : f32[3] %k = constant {value=tensor i64[] fill 0}
                                    %e = expand(%k) {shape=[1, n]} output e = %e }}
    output y = %r
  )"),
              "uses the symbol 'n', which node 'k' determines");
  EXPECT_SAYS(checked(R"(
    %x = input : f32[3]
    %r = loop(none, none, %x) {exactly=2, body=graph a { %i = input : i32[] %x = input : f32[3]
      %k = nonzero(%x) {count=dim(n)} %go = constant {value=tensor bool[] fill 1} output go = %go output k = %k }}
    output y = %r
  )"),
              "node 'r' (loop) returns i64[2, 1, n], but the symbol 'n' has a value only inside its body");
}

}  // namespace
}  // namespace rlx::testing
