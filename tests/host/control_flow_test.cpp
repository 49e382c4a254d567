// Branches and loops: inference, verifier, text form and reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/reference.h"
#include "ir/run_sizes.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/control_flow/loop.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/run_sizes.h"
#include "tests/support/graph_texts.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

const std::string kIf = R"(
  %c = input : bool[]
  %x = input : f32[3]
  %r = if(%c, %x) {then=graph yes {
    %x = input : f32[3]
    %y = mul(%x, 2)
    output y = %y
  }, else=graph no {
    %a = input : f32[3]
    %y = neg(%a)
    output other = %y
  }}
  output y = %r
)";

// y = x * 2 until its sum is 100 or more, at most `trips` times; all y in between are stacked.
const std::string kDoubling = R"(
  symbol n <= 8
  %trips = input : i32[]
  %x = input : f32[2]
  %r = loop(%trips, none, %x) {body=graph body {
    %i = input : i32[]
    %x = input : f32[2]
    %y = mul(%x, 2)
    %sum = sum(%y)
    %more = less(%sum, 100)
    output more = %more
    output y = %y
    output slice = %y
  }, carried=1, count=dim(n)}
  output y = %r
  output all = %r:1
)";

TEST(ControlFlow, TextsReadBack) {
  expect_round_trip(checked(kIf));
  expect_round_trip(checked(kDoubling));
  EXPECT_TRUE(to_text(checked(kIf)).contains("{then=graph yes {\n    %x = input")) << to_text(checked(kIf));
}

TEST(ControlFlow, SamplesRunOnTheReference) {
  for (const std::string name : {"if", "loop", "scan"}) {
    const OpInfo& info = op_table().at(name);
    for (const std::string& text : info.samples) {
      for (const DType type : types_of(info)) {
        const Sample s = make_sample(info, text, type, Reach::direct, 1);
        verify(s.graph);
        expect_round_trip(s.graph);
        const auto plain = run_reference(s.graph, s.inputs);
        const Graph expanded = expand_ops(s.graph);
        verify(expanded);
        for (const auto& [output, value] : run_reference(optimize(expanded, {}), s.inputs)) {
          EXPECT_EQ(value.dims, plain.at(output).dims) << text;
          EXPECT_EQ(value.ints, plain.at(output).ints) << text;
          EXPECT_EQ(value.real, plain.at(output).real) << text;
        }
      }
    }
  }
}

TEST(ControlFlow, IfRunsOneBranch) {
  const Graph g = checked(kIf);
  const Tensor x = floats({3}, {1, -2, 3});
  EXPECT_EQ(real(g, {{"c", boolean(true)}, {"x", x}}), (std::vector<double>{2, -4, 6}));
  EXPECT_EQ(real(g, {{"c", boolean(false)}, {"x", x}}), (std::vector<double>{-1, 2, -3}));
}

TEST(ControlFlow, LoopStopsAtTripsOrCondition) {
  const Graph g = checked(kDoubling);
  const auto expect = [&](int32_t trips, float start) {
    float x = start;
    std::vector<double> all;
    for (int32_t i = 0; i < trips; ++i) {
      x *= 2;
      all.insert(all.end(), {x, x});
      if (!(x + x < 100)) break;
    }
    const auto got = run_reference(g, {{"trips", int32(trips)}, {"x", floats({2}, {start, start})}});
    EXPECT_EQ(got.at("y").real, (std::vector<double>{x, x})) << trips;
    EXPECT_EQ(got.at("all").real, all) << trips;
    EXPECT_EQ(got.at("all").dims, (std::vector<int64_t>{std::ssize(all) / 2, 2})) << trips;
  };
  expect(3, 1);
  expect(100, 1);
  expect(100, 1000);
  expect(0, 1);
  expect(-5, 1);
  EXPECT_SAYS(run_reference(g, {{"trips", int32(100)}, {"x", floats({2}, {1e-9F, 1e-9F})}}),
              "goes on after 8 iterations, the capacity of the symbol 'n'");
}

TEST(ControlFlow, LoopConditionMayForbidTheFirstIteration) {
  const Graph g = checked(R"(
    %go = input : bool[]
    %x = input : f32[]
    %five = constant {value=tensor i64[1] fill 5}
    %y = loop(%five, %go, %x) {carried=1, body=graph b {
      %i = input : i32[]
      %x = input : f32[]
      %f = cast(%i) {to=f32}
      %y = add(%x, %f)
      %more = less(%i, 3)
      output more = %more
      output y = %y
    }}
    output y = %y
  )");
  EXPECT_EQ(real(g, {{"go", boolean(false)}, {"x", floats({}, {1})}}), std::vector<double>{1});
  EXPECT_EQ(real(g, {{"go", boolean(true)}, {"x", floats({}, {1})}}), std::vector<double>{1 + 0 + 1 + 2 + 3});
}

TEST(ControlFlow, WhatFollowsALoopHasTheTrueSize) {
  std::string text = kDoubling;
  text +=
      "  %mean = mean(%r:1) {axes=[0]}\n  %flat = reshape(%r:1) {shape=[n*2]}\n"
      "  %zeros = constant {value=tensor f32[] fill 0}\n  %wide = expand(%zeros) {shape=[n, 3]}\n"
      "  output mean = %mean\n  output flat = %flat\n  output wide = %wide\n";
  const Graph g = checked(text);
  const auto got = run_reference(g, {{"trips", int32(3)}, {"x", floats({2}, {1, 3})}});
  EXPECT_EQ(got.at("mean").real, (std::vector<double>{14.0 / 3, 42.0 / 3}));
  EXPECT_EQ(got.at("flat").real, (std::vector<double>{2, 6, 4, 12, 8, 24}));
  EXPECT_EQ(got.at("wide").dims, (std::vector<int64_t>{3, 3}));
}

TEST(ControlFlow, NestedLoopsAndBranches) {
  // The sum over i < 4 and j < i of (i even ? x : -x * j).
  const Graph g = checked(R"(
    %x = input : f32[]
    %zero = constant {value=tensor f32[] fill 0}
    %four = constant {value=tensor i32[] fill 4}
    %y = loop(%four, none, %zero, %x) {carried=1, body=graph outer {
      %i = input : i32[]
      %sum = input : f32[]
      %x = input : f32[]
      %even.i = mod(%i, 2)
      %even = equal(%even.i, 0)
      %inner = loop(%i, none, %sum, %x, %even) {carried=1, body=graph inner {
        %j = input : i32[]
        %sum = input : f32[]
        %x = input : f32[]
        %even = input : bool[]
        %term = if(%even, %x, %j) {then=graph plus {
          %x = input : f32[]
          %j = input : i32[]
          output t = %x
        }, else=graph minus {
          %x = input : f32[]
          %j = input : i32[]
          %f = cast(%j) {to=f32}
          %t = mul(%x, %f)
          %n = neg(%t)
          output t = %n
        }}
        %next = add(%sum, %term)
        %go = constant {value=tensor bool[] fill 1}
        output go = %go
        output sum = %next
      }}
      %go = constant {value=tensor bool[] fill 1}
      output go = %go
      output sum = %inner
    }}
    output y = %y
  )");
  expect_round_trip(g);
  double want = 0;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < i; ++j) want += i % 2 == 0 ? 1.5 : -1.5 * j;
  }
  const NamedTensors leaves = {{"x", floats({}, {1.5F})}};
  EXPECT_EQ(real(g, leaves), std::vector<double>{want});
  EXPECT_EQ(real(optimize(expand_ops(g), {}), leaves), std::vector<double>{want});
}

TEST(ControlFlow, BodiesShareParamsByName) {
  const Graph g = checked(R"(
    %w = param : f32[2]
    %c = input : i32[]
    %r = if(%c) {then=graph a { %w = param : f32[2] %y = mul(%w, 3) output y = %y },
                 else=graph b { %v = param : f32[2] output y = %v }}
    %y = add(%r, %w)
    output y = %y
  )");
  const NamedTensors leaves = {{"w", floats({2}, {1, 2})}, {"v", floats({2}, {10, 20})}, {"c", int32(7)}};
  EXPECT_EQ(real(g, leaves), (std::vector<double>{4, 8}));
  EXPECT_SAYS(checked(R"(
    %w = param : f32[2]
    %c = input : i32[]
    %r = if(%c) {then=graph a { %w = param : f32[3] output y = %w },
                 else=graph b { %v = param : f32[3] output y = %v }}
    output y = %r
    output w = %w
  )"),
              "the param 'w' of the graph 'a' is f32[3], but elsewhere 'w' is the param f32[2]");
}

TEST(ControlFlow, StatesInBodiesKeepTheirContents) {
  const Graph g = checked(kAccumulate + "output y = %y");
  const NamedTensors leaves = {{"trips", int32(3)}, {"x", floats({2}, {1, 2})}, {"s", floats({2}, {10, 20})}};
  EXPECT_EQ(real(g, leaves), (std::vector<double>{13, 26}));
  EXPECT_EQ(real(optimize(g, {}), leaves), (std::vector<double>{13, 26}));
}

TEST(ControlFlow, AStateIsReadBeforeTheBodyThatWritesIt) {
  const Graph g = checked(kAccumulate + R"(
    %s = state : f32[2]
    %old = mul(%s, 2)
    output y = %y
    output old = %old
  )");
  const NamedTensors leaves = {{"trips", int32(2)}, {"x", floats({2}, {1, 2})}, {"s", floats({2}, {10, 20})}};
  EXPECT_EQ(real(g, leaves, "old"), (std::vector<double>{20, 40}));
  EXPECT_EQ(real(optimize(g, {}), leaves, "old"), (std::vector<double>{20, 40}));
  const std::vector<int32_t> order = schedule(g);
  EXPECT_LT(std::ranges::find(order, g.find("old")), std::ranges::find(order, g.find("y")));
  // What the body leaves in the state cannot be written over as if it had not run.
  EXPECT_SAYS(checked(kAccumulate + R"(
    %s = state : f32[2]
    %n = write_state(%s, %x)
    output y = %y
    output n = %n
  )"),
              "node 'n' writes a state that 'y' has already overwritten");
}

TEST(ControlFlow, BodiesSeeTheWritesBeforeThem) {
  const Graph g = checked(R"(
    %s = state : f32[2]
    %u = input : f32[2]
    %c = constant {value=tensor bool[] fill 1}
    %before = if(%c) {then=graph a { %s = state : f32[2] %y = mul(%s, 1) output y = %y },
                      else=graph b { %s = state : f32[2] %y = neg(%s) output y = %y }}
    %n = write_state(%s, %u)
    %after = if(%c) {then=graph a { %s = state : f32[2] %y = mul(%s, 1) output y = %y },
                     else=graph b { %s = state : f32[2] %y = neg(%s) output y = %y }}
    output before = %before
    output after = %after
    output n = %n
  )");
  const NamedTensors leaves = {{"u", floats({2}, {1, 2})}, {"s", floats({2}, {10, 20})}};
  for (const Graph& graph : {g, optimize(g, {})}) {
    EXPECT_EQ(real(graph, leaves, "before"), (std::vector<double>{10, 20})) << to_text(graph);
    EXPECT_EQ(real(graph, leaves, "after"), (std::vector<double>{1, 2})) << to_text(graph);
    EXPECT_TRUE(find_schedule(graph).has_value());
  }
}

// The same op twice, of the same inputs: what its bodies read is not the same.
TEST(ControlFlow, BodiesAroundAWriteAreNotTheSame) {
  Graph g = checked(R"(
    %s = state : f32[2]
    %u = input : f32[2]
    %c = input : bool[]
    %before = if(%c) {then=graph a { %s = state : f32[2] %y = mul(%s, 1) output y = %y },
                      else=graph b { %s = state : f32[2] %y = neg(%s) output y = %y }}
    %n = write_state(%s, %u)
    output before = %before
    output n = %n
  )");
  const Node before = g.node(g.find("before"));
  g.output("after", g.value(g.add(before.op, before.inputs, "after")));
  verify(g);
  const NamedTensors leaves = {
      {"u", floats({2}, {1, 2})}, {"s", floats({2}, {10, 20})}, {"c", Tensor::full(DType::bool_, {}, 1)}};
  for (const Graph& graph : {g, merge_common_subexpressions(g), optimize(g, {})}) {
    EXPECT_EQ(real(graph, leaves, "before"), (std::vector<double>{10, 20})) << to_text(graph);
    EXPECT_EQ(real(graph, leaves, "after"), (std::vector<double>{1, 2})) << to_text(graph);
    EXPECT_TRUE(find_schedule(graph).has_value());
  }
}

TEST(ControlFlow, SymbolsOfTheCallerReachBodies) {
  const Graph g = checked(R"(
    %c = input : bool[]
    %x = input : f32[batch, 2]
    %s = scan(%x) {body=graph row {
      %x = input : f32[2]
      %y = sum(%x)
      output y = %y
    }} : f32[batch]
    %r = if(%c, %x) {then=graph a { %x = input : f32[batch, 2] %y = reshape(%x) {shape=[batch*2]} output y = %y },
                     else=graph b { %x = input : f32[batch, 2] %t = transpose(%x) %y = reshape(%t) {shape=[batch*2]} output y = %y }}
    output y = %r
    output s = %s
  )");
  expect_round_trip(g);
  const NamedTensors leaves = {{"c", boolean(false)}, {"x", floats({3, 2}, {1, 2, 3, 4, 5, 6})}};
  for (const Graph& graph : {g, optimize(expand_ops(g), {})}) {
    const Graph bound = bind_symbols(graph, {{"batch", 3}});
    EXPECT_EQ(real(bound, leaves), (std::vector<double>{1, 3, 5, 2, 4, 6}));
    EXPECT_EQ(real(bound, leaves, "s"), (std::vector<double>{3, 7, 11}));
  }
  EXPECT_TRUE(run_symbols(g).empty());
}

TEST(ControlFlow, ScanExpandsIntoALoop) {
  const Graph g = expand_ops(checked(R"(
    %zero = constant {value=tensor f32[2] fill 0}
    %x = input : f32[rows, 2]
    %w = input : f32[2]
    %r = scan(%zero, %x, %w) {carried=1, body=graph body {
      %sum = input : f32[2]
      %row = input : f32[2]
      %w = input : f32[2]
      %p = mul(%row, %w)
      %next = add(%sum, %p)
      output sum = %next
      output all = %next
    }}
    output y = %r
    output all = %r:1
  )"));
  verify(g);
  expect_round_trip(g);
  const auto* loop = op_cast<Loop>(*g.node(g.find("r")).op);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->exactly->text(), "rows");
  const auto got = run_reference(bind_symbols(g, {{"rows", 3}}),
                                 {{"x", floats({3, 2}, {1, 2, 3, 4, 5, 6})}, {"w", floats({2}, {1, 10})}});
  EXPECT_EQ(got.at("y").real, (std::vector<double>{9, 120}));
  EXPECT_EQ(got.at("all").real, (std::vector<double>{1, 20, 4, 60, 9, 120}));
}

TEST(ControlFlow, FunctionsBuildThem) {
  Graph g;
  const Value x = g.input("x", DType::f32, {4});
  Graph halve;
  halve.output("y", halve.input("x", DType::f32, {4}) * 0.5);
  Graph keep;
  keep.output("y", keep.input("x", DType::f32, {4}));
  const Value large = greater(sum(x), 10.0);
  const Value y = if_else(large, {x}, halve, keep)[0];

  Graph body;
  const Value i = body.input("i", DType::i32, {});
  const Value c = body.input("c", DType::f32, {4});
  body.output("more", less(i, 2));
  body.output("c", c + 1.0);
  body.output("slice", sum(c));
  LoopOptions options;
  options.count = "made";
  options.capacity = 16;
  const std::vector<Value> looped = loop({y}, body, options);

  Graph step;
  step.output("twice", step.input("s", DType::f32, {}) * 2.0);
  const Value doubled = scan({}, {looped[1]}, step)[0];
  const Value indices = nonzero(greater(looped[0], 3.0), "n").indices;
  g.output("carried", looped[0]);
  g.output("doubled", doubled);
  g.output("indices", indices);
  verify(g);
  expect_round_trip(g);
  EXPECT_EQ(doubled.shape().text(), "[made]");
  const auto got = run_reference(g, {{"x", floats({4}, {1, 2, 3, 5})}});
  EXPECT_EQ(got.at("carried").real, (std::vector<double>{3.5, 4, 4.5, 5.5}));
  EXPECT_EQ(got.at("doubled").real, (std::vector<double>{11, 19, 27}));
  EXPECT_EQ(got.at("indices").ints, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(ControlFlow, InferenceSaysWhatIsWrong) {
  const auto loop_with = [](const std::string& attributes, const std::string& outputs) {
    return "%x = input : f32[2] %n = input : i32[] %r = loop(%n, none, %x) {" + attributes +
           ", body=graph b { %i = input : i32[] %x = input : f32[2] %go = less(%i, 3) %y = neg(%x) "
           "%s = sum(%x) " +
           outputs + " }} output y = %r";
  };
  EXPECT_SAYS(
      checked("%c = input : f32[] %r = if(%c) {then=graph a { %z = constant {value=tensor f32[] fill 0} "
              "output z = %z }, else=graph b { %z = constant {value=tensor f32[] fill 0} output z = %z "
              "}} output y = %r"),
      "if: the condition is f32[]; it must be one bool or integer");
  EXPECT_SAYS(
      checked("%c = input : bool[2] %r = if(%c) {then=graph a { %z = constant {value=tensor f32[] fill "
              "0} output z = %z }, else=graph b { %z = constant {value=tensor f32[] fill 0} output z = "
              "%z }} output y = %r"),
      "if: the condition is bool[2]");
  EXPECT_SAYS(
      checked("%c = input : bool[] %x = input : f32[2] %r = if(%c, %x) {then=graph a { %x = input : "
              "f32[2] output x = %x }, else=graph b { %x = input : f32[2] %s = sum(%x) output s = %s }} "
              "output y = %r"),
      "if: output 0 is f32[2] in the body 'a', but f32[] in 'b'");
  EXPECT_SAYS(
      checked("%c = input : bool[] %x = input : f32[2] %r = if(%c, %x) {then=graph a { %x = input : "
              "f32[3] output x = %x }, else=graph b { %x = input : f32[2] output s = %x }} output y = %r"),
      "if: 'x' of the body 'a' is f32[3], but it is given f32[2]");
  EXPECT_SAYS(checked(loop_with("carried=1", "output go = %go output s = %s")),
              "loop: carried value 0 is f32[2], but the body 'b' returns f32[] for it ('s')");
  EXPECT_SAYS(checked(loop_with("carried=1", "output y = %y output z = %y")),
              "loop: the first output of the body 'b' is f32[2]");
  EXPECT_SAYS(checked(loop_with("carried=1", "output go = %go output y = %y output s = %s")),
              "needs the attribute `exactly` or `count`");
  EXPECT_SAYS(checked(loop_with("carried=1, exactly=3", "output go = %go output y = %y output s = %s")),
              "exactly 3 iterations, so it takes neither trips nor a condition");
  EXPECT_SAYS(checked(loop_with("carried=2", "output go = %go output y = %y")),
              "the attribute carried is 2, but after trips and condition there are 1 inputs");
  EXPECT_SAYS(checked(loop_with("carried=1, count=dim(k)", "output go = %go output y = %y output s = %s")),
              "node 'r' (loop) determines the symbol 'k', which needs a capacity");
  EXPECT_SAYS(
      checked("%x = input : f32[2] %r = loop(none, none, %x) {carried=1, exactly=3, body=graph b { %i = "
              "input : i32[] %x = input : f32[2] %go = less(%i, 1) output go = %go output x = %x }} "
              "output y = %r"),
      "so the first output of the body 'b' must be the constant true");
  EXPECT_SAYS(
      checked("%x = input : f32[2] %z = input : f32[3] %r = scan(%x, %z) {scanned=2, body=graph b { %a "
              "= input : f32[] %b = input : f32[] output a = %a }} output y = %r"),
      "scan: the scanned inputs 0 and 1 have 2 and 3 slices");
}

TEST(Subgraphs, AreWalked) {
  const Graph g = checked(kIf);
  std::vector<std::string> names;
  for_each_graph(g, [&](const Graph& sub) { names.push_back(sub.name); });
  EXPECT_EQ(names, (std::vector<std::string>{"g", "yes", "no"}));
}

}  // namespace
}  // namespace rlx::testing
