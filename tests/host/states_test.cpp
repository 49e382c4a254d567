// Reads of a state's old contents stay before the write, whatever the passes do.
#include "ir/states.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/reference.h"
#include "passes/pass_order.h"
#include "rlx/graph.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// The optimised graph, which must have an order in which it can run.
std::string optimized(const std::string& body) {
  const Graph graph = parse_graph("graph g {\n" + body + "}");
  EXPECT_TRUE(find_schedule(graph).has_value()) << "the test itself: " << body;
  const Graph result = optimize(graph, {});
  verify(result);
  EXPECT_TRUE(find_schedule(result).has_value()) << to_text(result);
  return to_text(result);
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

// Two states that one node writes have their own versions.
TEST(States, OneNodeWritesTwo) {
  const Graph g = parse_graph(R"g(graph g {
    %s = state : f32[4]
    %t = state : f32[4]
    %u = input : f32[1]
    %n = write_state(%s,%t,%u,%u) {states=2}
    %m = write_state(%n:1,%u) {start=1}
    %old = slice(%n:1) {axis=0, start=0, length=2}
    %a = neg(%old)
    %b = neg(%t)
    output s = %n
    output m = %m
    output a = %a
    output b = %b
  })g");
  const StateVersions states(g);
  const auto id = [&](std::string_view name) {
    return static_cast<int32_t>(std::ranges::find(g.nodes(), name, &Node::name) - g.nodes().begin());
  };
  EXPECT_EQ(states.writer({id("s"), 0}), id("n"));
  EXPECT_EQ(states.writer({id("t"), 0}), id("n"));
  EXPECT_EQ(states.writer({id("n"), 0}), -1);
  EXPECT_EQ(states.writer({id("n"), 1}), id("m"));
  EXPECT_EQ(states.version({id("old"), 0}), (ValueId{id("n"), 1}));
  const std::vector<int32_t> order = schedule(g);
  const auto at = [&](std::string_view name) { return std::ranges::find(order, id(name)); };
  EXPECT_LT(at("b"), at("n"));
  EXPECT_LT(at("a"), at("m"));
  EXPECT_SAYS(verify(parse_graph(R"g(graph g {
    %s = state : f32[4]
    %u = input : f32[1]
    %n = write_state(%s,%s,%u,%u) {states=2}
    output n = %n
  })g")),
              "has already overwritten");
}

// Sums, views and writes of values that may be any contents of three states.
std::string random_body(std::mt19937& random) {
  const auto below = [&](size_t n) { return random() % n; };
  std::vector<std::string> values = {"%x"};
  std::vector<std::string> newest = {"%s0", "%s1", "%s2"};
  std::string body = "%x = input : i32[4]\n";
  for (const std::string& s : newest) {
    body += s + " = state : i32[4]\n";
    values.push_back(s);
  }
  for (int i = 0; i < 14; ++i) {
    const std::string name = "%v" + std::to_string(i);
    const std::string& a = values[below(values.size())];
    const std::string& b = values[below(values.size())];
    std::string& state = newest[below(newest.size())];
    switch (below(4)) {
      case 0:
        body += name + " = add(" + a + ", " + b + ")\noutput o" + std::to_string(i) + " = " + name + "\n";
        break;
      case 1:
        body += name + " = slice(" + a + ") {axis=0, start=3, length=4, step=-1}\n";
        break;
      default:
        body += name + "u = slice(" + a + ") {axis=0, start=1, length=2}\n" + name + " = write_state(" +
                state + ", " + name + "u) {start=" + std::to_string(below(2)) + "}\n";
        state = name;
    }
    values.push_back(name);
  }
  for (size_t i = 0; i < newest.size(); ++i)
    body += "output n" + std::to_string(i) + " = " + newest[i] + "\n";
  return body;
}

TEST(States, RandomGraphsKeepTheirMeaningAndAnOrder) {
  std::mt19937 random(5);
  int64_t with_order = 0;
  int64_t joined = 0;
  for (int i = 0; i < 1000; ++i) {
    const Graph graph = parse_graph("graph g {\n" + random_body(random) + "}");
    if (!find_schedule(graph)) continue;
    ++with_order;
    SCOPED_TRACE(to_text(graph));
    const Graph result = optimize(graph, {});
    verify(result);
    ASSERT_TRUE(find_schedule(result).has_value()) << to_text(result);
    joined += to_text(result).contains("states=2");
    NamedTensors leaves;
    for (const char* name : {"x", "s0", "s1", "s2"})
      leaves[name] = random_tensor(DType::i32, {4}, -9, 9, random);
    const auto want = run_reference(graph, leaves);
    const auto got = run_reference(result, leaves);
    for (const auto& [name, value] : want)
      ASSERT_EQ(got.at(name).ints, value.ints) << name << "\n" << to_text(result);
  }
  EXPECT_GT(with_order, 100);
  EXPECT_GT(joined, 25);
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
