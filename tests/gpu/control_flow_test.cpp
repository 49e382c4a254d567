// Branches, loops and sizes that only the run knows, on the device.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "tests/support/compare.h"
#include "tests/support/counters.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

Tensor floats(std::vector<int64_t> dims, std::vector<float> values) {
  return Tensor::of<float>(std::move(dims), values);
}
Tensor int32(int32_t value) { return Tensor::of<int32_t>({}, {value}); }
Tensor boolean(bool value) { return Tensor::from_ints(DType::bool_, {}, std::vector<int64_t>{value}); }

class ControlFlow : public ::testing::TestWithParam<bool> {
 protected:
  const Device& device() const { return GetParam() ? small_device() : full_device(); }
  Executable compile(const std::string& statements, bool optimize = true) const {
    return rlx::compile(parse_graph("graph g {\n" + statements + "\n}"), device(), {.optimize = optimize});
  }
  // Runs the graph with and without passes.
  void expect_reference(const std::string& statements, const std::vector<NamedTensors>& runs) const {
    const Graph graph = parse_graph("graph g {\n" + statements + "\n}");
    for (const bool optimize : {false, true}) {
      Executable exe = compile(statements, optimize);
      for (const NamedTensors& inputs : runs) {
        const NamedTensors got = exe.run(inputs);
        for (const auto& [name, want] : run_reference(graph, inputs))
          EXPECT_TRUE(close(got.at(name), want, {.ulps = 32, .terms = 100}))
              << name << (optimize ? ", optimized" : "");
      }
      EXPECT_EQ(exe.plan_count(), 1);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ControlFlow, ::testing::Values(false, true),
                         [](const auto& param) { return std::string(param.param ? "small" : "full"); });

const std::string kWhile = R"(
  %x = input : f32[3]
  %limit = input : f32[]
  %y = loop(none, none, %x, %limit) {carried=1, body=graph step {
    %i = input : i32[]
    %x = input : f32[3]
    %limit = input : f32[]
    %z = add(%x, 1)
    %s = sum(%z)
    %more = less(%s, %limit)
    output more = %more
    output z = %z
  }}
  output y = %y
)";

TEST_P(ControlFlow, OneBranchRuns) {
  const std::string both = R"(
    %c = input : bool[]
    %x = input : f32[3]
    %y = if(%c, %x) {then=graph yes {
      %x = input : f32[3]
      %s = state : f32[3]
      %w = write_state(%s, %x) {start=0}
      %y = mul(%w, 2)
      output y = %y
    }, else=graph no {
      %x = input : f32[3]
      %t = state : f32[3]
      %w = write_state(%t, %x) {start=0}
      %y = neg(%w)
      output y = %y
    }}
    %z = add(%y, 1)
    output z = %z
  )";
  Executable exe = compile(both);
  const Tensor x = floats({3}, {1, 2, 3});
  EXPECT_EQ(exe.run({{"c", boolean(true)}, {"x", x}}).at("z").doubles(), (std::vector<double>{3, 5, 7}));
  EXPECT_EQ(exe.read_state("s").doubles(), x.doubles());
  EXPECT_EQ(exe.read_state("t").doubles(), std::vector<double>(3, 0));
  EXPECT_EQ(exe.run({{"c", boolean(false)}, {"x", x}}).at("z").doubles(), (std::vector<double>{0, -1, -2}));
  EXPECT_EQ(exe.read_state("t").doubles(), x.doubles());
}

TEST_P(ControlFlow, ABranchWritesTwoStatesAtOnce) {
  Executable exe = compile(R"(
    %c = input : bool[]
    %x = input : f32[3]
    %s = state : f32[4]
    %t = state : f32[4]
    %y = if(%c, %x) {then=graph yes {
      %x = input : f32[3]
      %s = state : f32[4]
      %t = state : f32[4]
      %n = neg(%x)
      %v = write_state(%s, %x) {start=1}
      %w = write_state(%t, %n) {start=1}
      %y = sub(%v, %w)
      output y = %y
    }, else=graph no {
      %x = input : f32[3]
      %s = state : f32[4]
      %y = mul(%s, 3)
      output y = %y
    }}
    output y = %y
  )");
  EXPECT_TRUE(to_text(*exe.graph()).contains("states=2")) << to_text(*exe.graph());
  const Tensor x = floats({3}, {1, 2, 3});
  EXPECT_EQ(exe.run({{"c", boolean(true)}, {"x", x}}).at("y").doubles(), (std::vector<double>{0, 2, 4, 6}));
  EXPECT_EQ(exe.read_state("s").doubles(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(exe.read_state("t").doubles(), (std::vector<double>{0, -1, -2, -3}));
  EXPECT_EQ(exe.run({{"c", boolean(false)}, {"x", x}}).at("y").doubles(), (std::vector<double>{0, 3, 6, 9}));
}

// What a branch computes is not copied, unless it is an output twice, a view or an input.
TEST_P(ControlFlow, BranchesComputeTheirResultsInPlace) {
  const std::string statements = R"(
    %c = input : bool[]
    %x = input : f32[3, 2]
    %p = if(%c, %x) {then=graph yes {
      %x = input : f32[3, 2]
      %s = softmax(%x)
      %t = sum(%x) {axes=[1]}
      %v = transpose(%s) {perm=[1, 0]}
      output a = %s
      output b = %t
      output c = %v
      output d = %s
    }, else=graph no {
      %x = input : f32[3, 2]
      %t = max(%x) {axes=[1]}
      %v = transpose(%x) {perm=[1, 0]}
      %w = contiguous(%v)
      output a = %x
      output b = %t
      output c = %w
      output d = %x
    }}
    output a = %p
    output b = %p:1
    output c = %p:2
    output d = %p:3
  )";
  const Tensor x = floats({3, 2}, {1, -2, 3, 4, 0, 5});
  expect_reference(statements, {{{"c", boolean(true)}, {"x", x}}, {{"c", boolean(false)}, {"x", x}}});
  // The condition as a word; two nodes and two copies; two nodes and two copies.
  EXPECT_EQ(compile(statements).dispatch_count(), 9);
}

TEST_P(ControlFlow, AKnownNumberOfIterationsIsOneSubmit) {
  Executable exe = compile(R"(
    %x = input : f32[3]
    %n = constant {value=tensor i32[] fill 1000}
    %y = loop(%n, none, %x) {carried=1, body=graph step {
      %i = input : i32[]
      %x = input : f32[3]
      %go = constant {value=tensor bool[] fill 1}
      %z = add(%x, 1)
      output go = %go
      output z = %z
    }}
    output y = %y
  )");
  EXPECT_EQ(exe.run({{"x", floats({3}, {0, 1, 2})}}).at("y").doubles(),
            (std::vector<double>{1000, 1001, 1002}));
  EXPECT_EQ(submit_count(exe), 1);
}

// The condition is looked at less and less often.
TEST_P(ControlFlow, AThousandStepsAreNotAThousandRoundTrips) {
  Executable exe = compile(kWhile);
  for (const int64_t steps : {1000, 1, 2, 3, 17}) {
    const int64_t before = submit_count(exe);
    const NamedTensors out =
        exe.run({{"x", floats({3}, {0, 0, 0})}, {"limit", floats({}, {static_cast<float>(3 * steps)})}});
    EXPECT_EQ(out.at("y").doubles(), std::vector<double>(3, static_cast<double>(steps)));
    EXPECT_LT(submit_count(exe) - before, steps < 10 ? 6 : 26);
  }
}

TEST_P(ControlFlow, TripsConditionsAndZeroIterations) {
  const std::string graph = R"(
    symbol n <= 9
    %trips = input : i64[]
    %go = input : bool[]
    %x = input : f32[2]
    %y = loop(%trips, %go, %x) {carried=1, count=dim(n), body=graph step {
      %i = input : i32[]
      %x = input : f32[2]
      %z = mul(%x, 2)
      %s = max(%z)
      %more = less(%s, 100)
      %f = cast(%i) {to=f32}
      %v = add(%z, %f)
      output more = %more
      output z = %z
      output v = %v
    }}
    %sum = sum(%y:1)
    output y = %y
    output all = %y:1
    output sum = %sum
  )";
  std::vector<NamedTensors> runs;
  for (const int64_t trips : {0, 1, 3, 9, 200, -4}) {
    for (const bool go : {true, false}) {
      runs.push_back(
          {{"trips", Tensor::of<int64_t>({}, {trips})}, {"go", boolean(go)}, {"x", floats({2}, {1, -1})}});
    }
  }
  expect_reference(graph, runs);
}

// A loop that ends at any iteration: those that are made after it, before the host looks, change nothing.
TEST_P(ControlFlow, EveryEndOfALoop) {
  std::vector<NamedTensors> runs;
  for (int end = 0; end <= 20; ++end) {
    runs.push_back({{"end", floats({}, {static_cast<float>(end)})},
                    {"go", boolean(end > 0)},
                    {"x", floats({2}, {1, -1})}});
  }
  expect_reference(R"(
    symbol n <= 40
    %end = input : f32[]
    %go = input : bool[]
    %x = input : f32[2]
    %y = loop(none, %go, %x, %end) {carried=1, count=dim(n), body=graph step {
      %i = input : i32[]
      %x = input : f32[2]
      %end = input : f32[]
      %f = cast(%i) {to=f32}
      %z = add(%x, %f)
      %next = add(%f, 1)
      %more = less(%next, %end)
      output more = %more
      output z = %z
      output f = %f
    }}
    %sum = sum(%y:1)
    output y = %y
    output all = %y:1
    output sum = %sum
  )",
                   runs);
}

TEST_P(ControlFlow, LoopsInLoopsAndBranches) {
  expect_reference(R"(
    %x = input : f32[2]
    %n = input : i32[]
    %y = loop(%n, none, %x, %n) {carried=1, body=graph outer {
      %i = input : i32[]
      %x = input : f32[2]
      %n = input : i32[]
      %go = constant {value=tensor bool[] fill 1}
      %odd = mod(%i, 2)
      %b = if(%odd, %x, %n) {then=graph swap {
        %x = input : f32[2]
        %n = input : i32[]
        %y = neg(%x)
        output y = %y
      }, else=graph sum {
        %x = input : f32[2]
        %n = input : i32[]
        %y = loop(%n, none, %x) {carried=1, body=graph inner {
          %j = input : i32[]
          %x = input : f32[2]
          %f = cast(%j) {to=f32}
          %y = add(%x, %f)
          %s = max(%y)
          %more = less(%s, 20)
          output more = %more
          output y = %y
        }}
        output y = %y
      }}
      output go = %go
      output y = %b
    }}
    output y = %y
  )",
                   {{{"x", floats({2}, {1, 2})}, {"n", int32(5)}},
                    {{"x", floats({2}, {3, -2})}, {"n", int32(0)}},
                    {{"x", floats({2}, {3, -2})}, {"n", int32(8)}}});
}

// Carried values that change places: each is read before it is overwritten.
TEST_P(ControlFlow, CarriedValuesCanBeSwapped) {
  expect_reference(R"(
    %a = input : f32[2, 3]
    %b = input : f32[2, 3]
    %n = input : i32[]
    %y = loop(%n, none, %a, %b) {carried=2, body=graph swap {
      %i = input : i32[]
      %a = input : f32[2, 3]
      %b = input : f32[2, 3]
      %go = constant {value=tensor bool[] fill 1}
      output go = %go
      output b = %b
      output a = %a
    }}
    output a = %y
    output b = %y:1
  )",
                   {{{"a", floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                     {"b", floats({2, 3}, {7, 8, 9, 10, 11, 12})},
                     {"n", int32(3)}}});
}

TEST_P(ControlFlow, ParamsAndSymbolsInBodies) {
  Executable exe = compile(R"(
    symbol m <= 9
    %x = input : f32[m, 4]
    %n = input : i32[]
    %y = loop(%n, none, %x) {carried=1, body=graph layer {
      %i = input : i32[]
      %x = input : f32[m, 4]
      %w = param : f32[4, 4]
      %t = transpose(%w)
      %go = constant {value=tensor bool[] fill 1}
      %p = matmul(%x, %t)
      %y = tanh(%p)
      output go = %go
      output y = %y
    }}
    output y = %y
  )");
  const Tensor w =
      floats({4, 4}, {.1F, .2F, .3F, .4F, .5F, .6F, .7F, .8F, -.1F, -.2F, -.3F, -.4F, .9F, 1, 0, .3F});
  exe.set_param("w", w);
  const Graph& g = *exe.graph();
  for (const int64_t m : {3, 9, 1, 8, 4}) {
    const Tensor x = Tensor::full(DType::f32, {m, 4}, 0.5);
    const NamedTensors got = exe.run({{"x", x}, {"n", int32(3)}});
    const auto want = run_reference(bind_symbols(g, {{"m", m}}), {{"x", x}, {"n", int32(3)}, {"w", w}});
    EXPECT_TRUE(close(got.at("y"), want.at("y"), {.ulps = 64})) << m;
  }
  EXPECT_EQ(exe.plan_count(), 1);
}

const std::string kNonZero = R"(
  %x = input : f32[4, 9]
  %t = input : f32[9]
  %i = nonzero(%x) {count=dim(n)}
  %columns = slice(%i) {axis=0, start=1, length=1}
  %flat = reshape(%columns) {shape=[n]}
  %picked = gather(%t, %flat)
  %mean = mean(%picked)
  %soft = softmax(%picked)
  %sorted = transpose(%i)
  output i = %i
  output n = %i:1
  output picked = %picked
  output mean = %mean
  output soft = %soft
  output sorted = %sorted
)";

// Those that come after compute on as many elements as there are, not on what lies behind them.
TEST_P(ControlFlow, SizesThatOnlyTheRunKnows) {
  std::vector<NamedTensors> runs;
  for (const int64_t count : {36, 1, 17, 4, 36, 2}) {
    std::vector<float> x(36, 0);
    for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i * 7 % 36)] = 1;
    runs.push_back({{"x", floats({4, 9}, x)}, {"t", floats({9}, {1, 2, 3, 4, 5, 6, 7, 8, 9})}});
  }
  expect_reference(kNonZero, runs);
}

TEST_P(ControlFlow, NoElementIsASizeToo) {
  expect_reference(R"(
    %x = input : f32[4, 9]
    %i = nonzero(%x) {count=dim(n)}
    %f = cast(%i) {to=f32}
    %sum = sum(%f) {axes=[1]}
    %more = concat(%f, %f) {axis=1}
    output i = %i
    output sum = %sum
    output more = %more
  )",
                   {{{"x", Tensor::full(DType::f32, {4, 9}, 0)}},
                    {{"x", Tensor::full(DType::f32, {4, 9}, 1)}},
                    {{"x", Tensor::full(DType::f32, {4, 9}, 0)}}});
}

// Each iteration finds another size.
TEST_P(ControlFlow, SizesInBodies) {
  expect_reference(R"(
    %x = input : f32[9]
    %n = input : i32[]
    %y = loop(%n, none, %x) {carried=1, body=graph step {
      %i = input : i32[]
      %x = input : f32[9]
      %f = cast(%i) {to=f32}
      %above = greater(%x, %f)
      %at = nonzero(%above) {count=dim(found)}
      %flat = reshape(%at) {shape=[found]}
      %t = gather(%x, %flat)
      %mean = sum(%t)
      %some = greater(%at:1, 2)
      %b = if(%some, %x, %mean) {then=graph fewer {
        %x = input : f32[9]
        %m = input : f32[]
        %big = greater(%x, 3)
        %j = nonzero(%big) {count=dim(k)}
        %jf = cast(%j) {to=f32}
        %js = sum(%jf)
        %a = add(%x, %js)
        %y = sub(%a, %m)
        output y = %y
      }, else=graph add {
        %x = input : f32[9]
        %m = input : f32[]
        %y = add(%x, %m)
        output y = %y
      }}
      %go = constant {value=tensor bool[] fill 1}
      output go = %go
      output y = %b
    }}
    output y = %y
  )",
                   {{{"x", floats({9}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {"n", int32(4)}},
                    {{"x", floats({9}, {0, 0, 0, 0, 0, 0, 0, 0, 0})}, {"n", int32(2)}},
                    {{"x", floats({9}, {9, 9, 9, 9, 9, 9, 9, 9, 9})}, {"n", int32(3)}}});
}

// Also if it is the first, and the one that the plan was made for.
TEST_P(ControlFlow, EverySizeCanBeTheFirst) {
  for (int64_t capacity = 1; capacity <= 6; ++capacity) {
    for (int64_t n = 0; n <= capacity; ++n) {
      Executable exe = compile("%x = input : f32[" + std::to_string(capacity) +
                               "]\n%f = nonzero(%x) {count=dim(k)}\noutput f = %f");
      std::vector<float> x(static_cast<size_t>(capacity), 0);
      std::fill_n(x.begin(), n, 1.0F);
      const NamedTensors out = exe.run({{"x", floats({capacity}, x)}});
      EXPECT_EQ(out.at("f").shape(), (std::vector<int64_t>{1, n})) << capacity;
    }
  }
}

TEST_P(ControlFlow, ALoopEndsAtItsCapacity) {
  Executable exe = compile(R"(
    symbol s <= 20
    %x = input : f32[4]
    %r = loop(none, none, %x) {carried=1, count=dim(s), body=graph b {
      %i = input : i32[]
      %v = input : f32[4]
      %z = add(%v, 1)
      %q = sum(%z)
      %m = greater(%q, -1000)
      output m = %m
      output z = %z
      output q = %q
    }}
    output q = %r:1
  )");
  EXPECT_SAYS(exe.run({{"x", floats({4}, {0, 0, 0, 0})}}),
              "'r' makes the symbol 's' 21, more than its capacity 20");
}

// A symbol of a body may have its capacity outside.
TEST_P(ControlFlow, CapacitiesOfBodies) {
  const std::string graph = R"(
    symbol k <= 3
    %x = input : f32[3, 8]
    %z = constant {value=tensor f32[] (0)}
    %r = scan(%z, %x) {carried=1, body=graph b {
      %a = input : f32[]
      %row = input : f32[8]
      %n = add(%a, 1)
      %f = nonzero(%row) {count=dim(k)}
      %i = reshape(%f) {shape=[k]}
      %c = gather(%row, %i)
      %s = sum(%c)
      output n = %n
      output s = %s
    }}
    output s = %r:1
  )";
  std::vector<float> x(24, 0);
  for (size_t i : {1u, 8u, 10u, 15u, 20u, 21u}) x[i] = static_cast<float>(i);
  expect_reference(graph, {{{"x", floats({3, 8}, x)}}});
  Executable exe = compile(graph);
  EXPECT_SAYS(exe.run({{"x", Tensor::full(DType::f32, {3, 8}, 1)}}),
              "makes the symbol 'k' 8, more than its capacity 3");
}

TEST_P(ControlFlow, MoreThanTheCapacityIsAnError) {
  Executable exe = compile(R"(
    symbol n <= 4
    %x = input : f32[9]
    %i = nonzero(%x) {count=dim(n)}
    output i = %i
  )");
  EXPECT_SAYS(exe.run({{"x", Tensor::full(DType::f32, {9}, 1)}}),
              "'i' makes the symbol 'n' 9, more than its capacity 4");
  EXPECT_EQ(exe.run({{"x", Tensor::full(DType::f32, {9}, 0)}}).at("i").shape(), (std::vector<int64_t>{1, 0}));
  const std::pair<std::string_view, int64_t> given[] = {{"n", 1}};
  EXPECT_SAYS(exe.run({{"x", Tensor::full(DType::f32, {9}, 0)}}, given), "only the run knows it");
  EXPECT_SAYS(rlx::compile(*exe.graph(), device(), {.symbols = {{"n", 3}}}), "determines the symbol 'n'");
}

TEST_P(ControlFlow, RunsOfOneExecutableFollowEachOther) {
  Executable exe = compile(kWhile);
  const auto inputs = [](float steps) {
    return NamedTensors{{"x", floats({3}, {0, 0, 0})}, {"limit", floats({}, {3 * steps})}};
  };
  rlx::Run first = exe.run_async(inputs(40));
  rlx::Run second = exe.run_async(inputs(7));
  exe.run_async(inputs(3));  // nobody wants its result
  EXPECT_EQ(second.get().at("y").doubles(), std::vector<double>(3, 7));
  while (!first.ready()) std::this_thread::yield();
  EXPECT_EQ(first.get().at("y").doubles(), std::vector<double>(3, 40));
  rlx::Run last = exe.run_async(inputs(9));
  exe = compile(kWhile);  // the run is still taken to its end
  EXPECT_EQ(last.get().at("y").doubles(), std::vector<double>(3, 9));
}

TEST_P(ControlFlow, SeveralThreads) {
  Executable exe = compile(kWhile);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        const auto steps = static_cast<float>(1 + (t * 8 + i) % 11);
        rlx::Run run = exe.run_async({{"x", floats({3}, {0, 0, 0})}, {"limit", floats({}, {3 * steps})}});
        wrong += run.get().at("y").doubles() != std::vector<double>(3, steps);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ControlFlowRuns, ALostDeviceEndsThem) {
  const Device device = Device::open();
  Executable exe = compile(parse_graph("graph g {\n" + kWhile + "\n}"), device);
  const NamedTensors inputs = {{"x", floats({3}, {0, 0, 0})}, {"limit", floats({}, {300})}};
  rlx::Run run = exe.run_async(inputs);
  device.memory();
  force_loss(device);
  EXPECT_THROW(run.get(), Error);
  EXPECT_THROW(exe.run(inputs), Error);
  exe.rebuild(full_device());
  EXPECT_EQ(exe.run(inputs).at("y").doubles(), std::vector<double>(3, 100));
}

TEST(ControlFlowRuns, MemoryOfTheCallerMustFit) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : f32[5]
    %i = nonzero(%x) {count=dim(n)}
    output i = %i
  })"),
                           full_device());
  const std::vector<float> x = {0, 1, 0, 1, 0};
  std::vector<int64_t> two(2);
  exe.run({input_from("x", std::span(x))}, {output_to("i", two)});
  EXPECT_EQ(two, (std::vector<int64_t>{1, 3}));
  std::vector<int64_t> three(3);
  EXPECT_SAYS(exe.run({input_from("x", std::span(x))}, {output_to("i", three)}),
              "16 bytes, but memory for 24 bytes");
}

TEST(ControlFlowRuns, AreInTheReport) {
  const Executable exe = compile(parse_graph("graph g {\n" + kWhile + "\n}"), full_device());
  const PlanReport report = exe.plan_report();
  ASSERT_EQ(report.control.size(), 1u);
  EXPECT_TRUE(report.control[0].starts_with("a loop of 'y': dispatches 3 to 7 in each iteration, while a"))
      << report.control[0];
}

TEST(ControlFlowRuns, AreTimed) {
  Executable exe = compile(parse_graph("graph g {\n" + kWhile + "\n}"), full_device());
  const std::vector<DispatchReport> times =
      exe.profile({{"x", floats({3}, {0, 0, 0})}, {"limit", floats({}, {30})}});
  EXPECT_GE(std::ranges::count(times, "y/z", &DispatchReport::node), 10);
}

}  // namespace
}  // namespace rlx::testing
