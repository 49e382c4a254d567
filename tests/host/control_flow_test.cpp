// Branches, loops and sizes that only the run knows: inference, verifier, text form and reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/load_phase.h"
#include "ir/reference.h"
#include "ir/run_sizes.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/loop.h"
#include "passes/passes.h"
#include "rlx/ops.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

Graph checked(const std::string& statements) {
  Graph g = parse_graph("graph g {\n" + statements + "\n}");
  verify(g);
  return g;
}

std::vector<double> real(const Graph& g, const NamedTensors& leaves, const std::string& output = "y") {
  return run_reference(g, leaves).at(output).real;
}

Tensor floats(std::vector<int64_t> dims, std::vector<float> values) {
  return Tensor::of<float>(std::move(dims), values);
}
Tensor int32(int32_t value) { return Tensor::of<int32_t>({}, {value}); }
Tensor boolean(bool value) { return Tensor::from_ints(DType::bool_, {}, std::vector<int64_t>{value}); }

// Whatever the graph is, printing and parsing it changes nothing.
void expect_round_trip(const Graph& g) {
  const std::string text = print(g);
  const Graph again = parse_graph(text);
  verify(again);
  EXPECT_EQ(print(again), text);
}

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
  EXPECT_TRUE(print(checked(kIf)).contains("{then=graph yes {\n    %x = input")) << print(checked(kIf));
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

// Adds x to a state in each iteration and returns what the state holds.
const std::string kAccumulate = R"(
  %trips = input : i32[]
  %x = input : f32[2]
  %zero = constant {value=tensor f32[2] fill 0}
  %y = loop(%trips, none, %zero, %x) {carried=1, body=graph body {
    %i = input : i32[]
    %last = input : f32[2]
    %x = input : f32[2]
    %s = state : f32[2]
    %sum = add(%s, %x)
    %new = write_state(%s, %sum)
    %copy = mul(%new, 1)
    %go = constant {value=tensor bool[] fill 1}
    output go = %go
    output s = %copy
  }}
)";

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
    EXPECT_EQ(real(graph, leaves, "before"), (std::vector<double>{10, 20})) << print(graph);
    EXPECT_EQ(real(graph, leaves, "after"), (std::vector<double>{1, 2})) << print(graph);
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
  const Value indices = nonzero(greater(looped[0], 3.0), "n")[0];
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

// --- Passes ---

std::string optimized(const std::string& statements) {
  const Graph g = optimize(expand_ops(checked(statements)), {});
  verify(g);
  return print(g);
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
  EXPECT_FALSE(print(after).contains("%y = if(")) << print(after);
  for (const Graph& graph : {g, after}) {
    EXPECT_EQ(real(graph, leaves), (std::vector<double>{3, 6})) << print(graph);
    EXPECT_EQ(real(graph, leaves, "z"), (std::vector<double>{30, 60})) << print(graph);
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
  EXPECT_TRUE(find_schedule(after).has_value()) << print(after);
  EXPECT_FALSE(print(after).contains("graph a")) << print(after);
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
  EXPECT_FALSE(print(g).contains("loop"));
  EXPECT_EQ(run_reference(g, {{"x", floats({3}, {1, 2, 3})}}).at("y").dims, (std::vector<int64_t>{0, 3}));
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
    EXPECT_EQ(real(graph, {{"c", boolean(true)}}), (std::vector<double>{2, 2})) << print(graph);
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
      EXPECT_TRUE(&sub == &after || (n.op->name() != "neg" && n.op->name() != "exp")) << print(after);
  });
  const Node& loop = after.node(after.find("r"));
  ASSERT_EQ(loop.inputs.size(), 5u) << print(
      after);  // trips, condition, x, and two values that are passed in
  const std::vector<bool> loaded = in_load_phase(after);
  for (const size_t i : {3, 4}) EXPECT_TRUE(loaded[static_cast<size_t>(loop.inputs[i].node)]) << print(after);
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

// --- nonzero ---

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
    EXPECT_EQ(got.at("mean").real, std::vector<double>{3}) << print(graph);
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

TEST(Subgraphs, AreWalked) {
  const Graph g = checked(kIf);
  std::vector<std::string> names;
  for_each_graph(g, [&](const Graph& sub) { names.push_back(sub.name); });
  EXPECT_EQ(names, (std::vector<std::string>{"g", "yes", "no"}));
}

}  // namespace
}  // namespace rlx::testing
