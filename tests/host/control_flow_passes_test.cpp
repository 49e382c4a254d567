// What passes do to branches and loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/load_phase.h"
#include "ir/reference.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/graph_texts.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

std::string optimized(const std::string& statements) {
  const Graph g = optimize(expand_ops(checked(statements)), {});
  verify(g);
  return to_text(g);
}

TEST(ControlFlowPasses, AConstantConditionChoosesTheBranch) {
  const std::string text = optimized(R"(
    %w = param : f32[3]
    %x = input : f32[3]
    %c = constant {value=tensor i32[] fill 0}
    %y = if(%c, %x) {then=graph a { %x = input : f32[3] output y = %x },
                     else=graph b { %x = input : f32[3] %w = param : f32[3] %v = param : f32[3]
                                    %p = mul(%x, %w) %y = add(%p, %v) output y = %y }}
    %z = add(%y, %w)
    output z = %z
  )");
  EXPECT_FALSE(text.contains("if(")) << text;
  EXPECT_TRUE(text.contains("fused_elementwise(%x, %w, %v)")) << text;
}

TEST(ControlFlowPasses, AnInlinedBranchReadsAndWritesTheNewestState) {
  const Graph g = checked(R"(
    %s = state : f32[2]
    %u = input : f32[2]
    %n = write_state(%s, %u)
    %c = constant {value=tensor bool[] fill 1}
    %y = if(%c) {then=graph a { %s = state : f32[2] %t = mul(%s, 3) %m = write_state(%s, %t) %r = mul(%m, 1) output r = %r },
                 else=graph b { %s = state : f32[2] %r = neg(%s) output r = %r }}
    %d = input : bool[]
    %z = if(%d) {then=graph a { %s = state : f32[2] %r = mul(%s, 10) output r = %r },
                 else=graph b { %s = state : f32[2] %r = neg(%s) output r = %r }}
    output y = %y
    output z = %z
  )");
  const NamedTensors leaves = {{"u", floats({2}, {1, 2})}, {"s", floats({2}, {7, 7})}, {"d", boolean(true)}};
  const Graph after = optimize(g, {});
  verify(after);
  EXPECT_FALSE(to_text(after).contains("%y = if(")) << to_text(after);
  for (const Graph& graph : {g, after}) {
    EXPECT_EQ(real(graph, leaves), (std::vector<double>{3, 6})) << to_text(graph);
    EXPECT_EQ(real(graph, leaves, "z"), (std::vector<double>{30, 60})) << to_text(graph);
  }
}

TEST(ControlFlowPasses, ResultsAreCopiesOfStates) {
  const Graph g = checked(R"(
    %s = state : f32[2]
    %u = input : f32[2]
    %c = constant {value=tensor bool[] fill 1}
    %a = if(%c) {then=graph a { %s = state : f32[2] %r = mul(%s, 1) output r = %r },
                 else=graph b { %s = state : f32[2] %r = neg(%s) output r = %r }}
    %b = if(%c, %s) {then=graph a { %x = input : f32[2] output r = %x },
                     else=graph b { %x = input : f32[2] %r = neg(%x) output r = %r }}
    %no = constant {value=tensor i32[] fill 0}
    %d = loop(%no, none, %s) {carried=1, body=graph step { %i = input : i32[] %x = input : f32[2]
      %go = constant {value=tensor bool[] fill 1} %y = neg(%x) output go = %go output y = %y }}
    %n = write_state(%s, %u)
    %p = add(%a, %n)
    %q = add(%b, %p)
    %y = add(%d, %q)
    output y = %y
  )");
  const NamedTensors leaves = {{"u", floats({2}, {1, 2})}, {"s", floats({2}, {7, 7})}};
  const Graph after = optimize(g, {});
  verify(after);
  EXPECT_TRUE(find_schedule(after).has_value()) << to_text(after);
  EXPECT_FALSE(to_text(after).contains("graph a")) << to_text(after);
  EXPECT_EQ(real(after, leaves), (std::vector<double>{22, 23}));
}

TEST(ControlFlowPasses, ABranchStaysABodyIfAnotherBodyWritesItsState) {
  const std::string text = optimized(kAccumulate + R"(
    %c = constant {value=tensor bool[] fill 1}
    %z = if(%c) {then=graph a { %s = state : f32[2] %r = mul(%s, 2) output r = %r },
                 else=graph b { %s = state : f32[2] output r = %s }}
    output y = %y
    output z = %z
  )");
  EXPECT_TRUE(text.contains("%z = if(")) << text;
}

TEST(ControlFlowPasses, ALoopWithoutIterationsIsItsInitialValues) {
  const std::string body = R"(body=graph b { %i = input : i32[] %x = input : f32[3]
    %go = constant {value=tensor bool[] fill 1} %y = neg(%x) output go = %go output y = %y }})";
  const std::string none =
      "%x = input : f32[3] %t = constant {value=tensor i64[] fill -2} %a = loop(%t, none, %x) "
      "{carried=1, " +
      body;
  EXPECT_FALSE(optimized(none + " %y = exp(%a) output y = %y").contains("loop"));
  const std::string forbidden =
      "%x = input : f32[3] %f = constant {value=tensor bool[] fill 0} %a = loop(none, %f, "
      "%x) {carried=1, " +
      body;
  EXPECT_FALSE(optimized(forbidden + " %y = exp(%a) output y = %y").contains("loop"));
  const Graph g = optimize(
      checked("%x = input : f32[3] %a = loop(none, none, %x) {exactly=0, " + body + " output y = %a"), {});
  EXPECT_FALSE(to_text(g).contains("loop"));
  EXPECT_EQ(run_reference(g, {{"x", floats({3}, {1, 2, 3})}}).at("y").dims, (std::vector<int64_t>{0, 3}));
}

// Others name the symbol that its iterations determine, and it has a value only while the loop is there.
TEST(ControlFlowPasses, ALoopWithoutIterationsStaysIfItCountsThem) {
  const Graph g = optimize(checked(R"(
    symbol n <= 4
    %x = input : f32[3]
    %t = constant {value=tensor i64[] fill 0}
    %a = loop(%t, none, %x) {carried=1, count=dim(n), body=graph b {
      %i = input : i32[] %x = input : f32[3] %go = constant {value=tensor bool[] fill 1} %y = neg(%x)
      output go = %go output y = %y output s = %y }}
    %z = exp(%a:1)
    output y = %a
    output z = %z
  )"),
                           {});
  verify(g);
  const auto got = run_reference(g, {{"x", floats({3}, {1, 2, 3})}});
  EXPECT_EQ(got.at("y").real, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(got.at("z").dims, (std::vector<int64_t>{0, 3}));
}

TEST(ControlFlowPasses, AKnownNumberOfTripsIsSaid) {
  // The bound is computed, and so is what the body returns; both fold.
  const std::string text = optimized(R"(
    %x = input : f32[3]
    %t = constant {value=tensor i32[] fill 2}
    %twice = add(%t, %t)
    %y = loop(%twice, none, %x) {carried=1, body=graph b {
      %i = input : i32[]
      %x = input : f32[3]
      %no = constant {value=tensor bool[] fill 0}
      %go = logical_not(%no)
      %y = neg(%x)
      output go = %go
      output y = %y
    }}
    output y = %y
  )");
  EXPECT_TRUE(text.contains("= loop(none, none, %x)")) << text;
  EXPECT_TRUE(text.contains("exactly=4")) << text;
}

TEST(ControlFlowPasses, RunInsideBodies) {
  const std::string text = optimized(R"(
    %c = input : bool[]
    %x = input : f32[3]
    %y = if(%c, %x) {then=graph a { %x = input : f32[3] %d = exp(%x) %a = neg(%x) %b = abs(%a) output y = %b },
                     else=graph b { %x = input : f32[3]
                       %y = call(%x) {body=graph inner { %x = input : f32[3] %y = mul(%x, 2) output y = %y }}
                       output y = %y }}
    output y = %y
  )");
  EXPECT_TRUE(text.contains("t0=neg($0); abs(t0)")) << text;
  EXPECT_FALSE(text.contains("exp(")) << text;
  EXPECT_FALSE(text.contains("call")) << text;
}

TEST(ControlFlowPasses, WritesInBodiesAreNeitherRemovedNorMerged) {
  // Nothing uses the results, and both are the same; each adds 1 to the state.
  Graph g;
  Graph body;
  const Value s = body.state("s", DType::f32, {2});
  body.output("n", write_state(s, s + 1.0, 0, 0) * 2.0);
  Graph other;
  other.output("n", other.scalar(DType::f32, 0) + other.constant(Tensor::full(DType::f32, {2}, 0)));
  const Value c = g.input("c", DType::bool_, {});
  if_else(c, {}, body, other)[0].named("one");
  if_else(c, {}, body, other)[0].named("two");
  Graph read;
  read.output("s", read.state("s", DType::f32, {2}) * 1.0);
  Graph not_read;
  not_read.output("s", not_read.constant(Tensor::full(DType::f32, {2}, 0)));
  g.output("y", if_else(c, {}, read, not_read)[0]);
  verify(g);
  const Graph after = optimize(g, {});
  verify(after);
  for (const Graph& graph : {g, after})
    EXPECT_EQ(real(graph, {{"c", boolean(true)}}), (std::vector<double>{2, 2})) << to_text(graph);
}

TEST(ControlFlowPasses, AnInputKeepsItsValueWhileTheBodyRuns) {
  EXPECT_SAYS(checked(R"(
    %s = state : f32[2]
    %c = input : bool[]
    %y = if(%c, %s) {then=graph a { %x = input : f32[2] %s = state : f32[2] %t = neg(%s) %m = write_state(%s, %t)
                                    %r = add(%x, %m) output r = %r },
                     else=graph b { %x = input : f32[2] output r = %x }}
    output y = %y
  )"),
              "node 'y' takes the state 's' as an input, and its body writes it; copy it first");
}

TEST(ControlFlowPasses, LoadsMakeNoDecisions) {
  const Graph g = checked(R"(
    symbol k <= 3
    %w = param : f32[3]
    %p = neg(%w)
    %c = param : bool[]
    %y = if(%c, %w) {then=graph a { %x = input : f32[3] output y = %x },
                     else=graph b { %x = input : f32[3] %y = neg(%x) output y = %y }}
    %r = nonzero(%w) {count=dim(k)}
    %e = expand(%c) {shape=[k]}
    output p = %p
    output y = %y
    output r = %r
    output e = %e
  )");
  const std::vector<bool> loaded = in_load_phase(g);
  const auto is_loaded = [&](const char* name) { return loaded[static_cast<size_t>(g.find(name))]; };
  EXPECT_TRUE(is_loaded("p"));
  EXPECT_FALSE(is_loaded("y"));
  EXPECT_FALSE(is_loaded("r"));
  EXPECT_FALSE(is_loaded("e"));
}

TEST(ControlFlowPasses, WeightsAreRearrangedOutsideOfBodies) {
  const Graph g = checked(R"(
    %c = input : bool[]
    %x = input : f32[2, 4]
    %r = loop(none, %c, %x) {carried=1, body=graph step {
      %i = input : i32[]
      %x = input : f32[2, 4]
      %w = param : f32[4, 4]
      %b = param : f32[4]
      %n = neg(%w)
      %t = transpose(%n)
      %p = matmul(%x, %t)
      %choose = less(%i, 1)
      %q = if(%choose, %p) {then=graph a { %p = input : f32[2, 4] %b = param : f32[4] %e = exp(%b) %q = add(%p, %e) output q = %q },
                            else=graph b { %p = input : f32[2, 4] %q = mul(%p, 2) output q = %q }}
      %more = less(%i, 2)
      output more = %more
      output q = %q
      output b = %b
    }, count=dim(n)}
    symbol n <= 9
    output y = %r
    output b = %r:1
  )");
  const Graph after = optimize(g, {});
  verify(after);
  for_each_graph(after, [&](const Graph& sub) {
    for (const Node& n : sub.nodes())
      EXPECT_TRUE(&sub == &after || (n.op->name() != "neg" && n.op->name() != "exp")) << to_text(after);
  });
  const Node& loop = after.node(after.find("r"));
  ASSERT_EQ(loop.inputs.size(), 5u) << to_text(
      after);  // trips, condition, x, and two values that are passed in
  const std::vector<bool> loaded = in_load_phase(after);
  for (const size_t i : {3, 4})
    EXPECT_TRUE(loaded[static_cast<size_t>(loop.inputs[i].node)]) << to_text(after);
  std::vector<float> w(16);
  for (size_t i = 0; i < w.size(); ++i) w[i] = 0.125F * static_cast<float>(i % 5);
  const NamedTensors leaves = {{"c", boolean(true)},
                               {"x", floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})},
                               {"w", floats({4, 4}, w)},
                               {"b", floats({4}, {0, 1, 2, 3})}};
  const std::vector<double> want = real(g, leaves);
  const std::vector<double> got = real(after, leaves);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-9);
}

// What is passed in comes after the trips and the condition, also where the loop takes neither.
TEST(ControlFlowPasses, WeightsArePassedIntoALoopWithoutInputs) {
  const Graph g = checked(R"(
    %y = loop() {exactly=3, body=graph step {
      %i = input : i32[]
      %w = param : f32[2]
      %e = exp(%w)
      %f = cast(%i) {to=f32}
      %z = mul(%e, %f)
      %go = constant {value=tensor bool[] fill 1}
      output go = %go
      output z = %z
    }}
    output y = %y
  )");
  const Graph after = optimize(g, {});
  verify(after);
  const Node& loop = after.node(after.find("y"));
  ASSERT_EQ(loop.inputs.size(), 3u) << to_text(after);
  EXPECT_TRUE(loop.inputs[0].is_absent() && loop.inputs[1].is_absent()) << to_text(after);
  EXPECT_EQ(after.type(loop.inputs[2]).text(), "f32[2]") << to_text(after);
  const NamedTensors leaves = {{"w", floats({2}, {0, 1})}};
  EXPECT_EQ(real(after, leaves), real(g, leaves));
  EXPECT_EQ(real(g, leaves).size(), 6u);
}

TEST(ControlFlowPasses, ASizeKeepsItsNodeAlive) {
  const std::string text = optimized(R"(
    %x = input : f32[3]
    %r = nonzero(%x) {count=dim(n)}
    %one = constant {value=tensor f32[] fill 1}
    %y = expand(%one) {shape=[n]}
    output y = %y
  )");
  EXPECT_TRUE(text.contains("nonzero")) << text;
}

}  // namespace
}  // namespace rlx::testing
