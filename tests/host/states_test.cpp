// Reads of a state's old contents stay before the write, whatever the passes do.
#include "ir/states.h"

#include <gtest/gtest.h>

#include "passes/passes.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

// The optimised graph, which must have an order in which it can run.
std::string optimized(const std::string& body) {
  const Graph graph = parse_graph("graph g {\n" + body + "}");
  EXPECT_TRUE(find_schedule(graph).has_value()) << "the test itself: " << body;
  const Graph result = optimize(graph, {});
  verify(result);
  EXPECT_TRUE(find_schedule(result).has_value()) << print(result);
  return print(result);
}

TEST(States, AReadIsNotFusedPastTheWrite) {
  const std::string text = optimized(R"g(
    %s = state : f32[4,4]
    %u = input : f32[4,4]
    %a = mul(%s,2)
    %n = write_state(%s,%u) {start=0}
    %y = add(%a,%n)
    output y = %y
  )g");
  EXPECT_TRUE(text.contains("%a = ")) << text;
}

TEST(States, NorThroughViews) {
  optimized(R"g(
    %s = state : f32[4,6]
    %u = input : f32[1,6]
    %v = slice(%s) {axis=0, start=1, length=2}
    %t = transpose(%v)
    %a = mul(%t,2)
    %b = neg(%a)
    %n = write_state(%s,%u) {start=2}
    %m = slice(%n) {axis=0, start=1, length=2}
    %k = transpose(%m)
    %y = sub(%b,%k)
    output y = %y
  )g");
}

TEST(States, NorPastOneOfSeveralWrites) {
  const std::string text = optimized(R"g(
    %s = state : f32[4]
    %u = input : f32[4]
    %a = mul(%s,2)
    %n = write_state(%s,%u)
    %b = mul(%n,3)
    %c = add(%a,%b)
    %m = write_state(%n,%c)
    %d = mul(%m,2)
    %e = mul(%s,2)
    %f = add(%b,%d)
    %y = add(%f,%e)
    output y = %y
  )g");
  // %a and %e read one version, %d another.
  EXPECT_FALSE(text.contains("%e = ")) << text;
}

TEST(States, ACopyOfTheOldContentsIsNotTheState) {
  optimized(R"g(
    %s = state : f32[4]
    %u = input : f32[4]
    %a = mul(%s,1)
    %b = cast(%s) {to=f32}
    %p = split(%s) {axis=0, sizes=[1,3]}
    %n = write_state(%s,%u)
    %x = add(%a,%n)
    %y = add(%b,%x)
    output y = %y
    output p = %p:1
    %q = softmax(%p)
    %z = add(%q,%n)
    output z = %z
  )g");
}

TEST(States, WhatReadsAfterTheWriteInTheTextRunsBeforeIt) {
  optimized(R"g(
    %s = state : f32[4]
    %u = input : f32[4]
    %n = write_state(%s,%u)
    %a = mul(%s,2)
    %b = exp(%a)
    output b = %b
    output n = %n
  )g");
}

TEST(States, OtherFusionsMoveNoReadEither) {
  optimized(R"g(
    %s = state : f32[2,4]
    %u = input : f32[2,4]
    %w = param : f32[4,4]
    %r = add(%s,%u)
    %p = matmul(%s,%w)
    %n = write_state(%s,%u)
    %g = slice(%n) {axis=0, start=0, length=1}
    %gamma = reshape(%g) {shape=[4]}
    %l = layer_norm(%r,%gamma)
    %q = add(%p,%n)
    output l = %l
    output q = %q
  )g");
}

TEST(States, AGraphWithoutAnOrderIsNamed) {
  const Graph graph = parse_graph(R"g(graph g {
    %s = state : f32[4]
    %u = input : f32[4]
    %n = write_state(%s,%u)
    %y = add(%s,%n)
    output y = %y
  })g");
  const std::string what = message([&] { schedule(optimize(graph, {})); });
  EXPECT_TRUE(what.contains("node 'n' overwrites the state 's'")) << what;
}

}  // namespace
}  // namespace rlx::testing
