// Executables: running, shapes bound late, states, threads, loss, and wrong calls.
#include "rlx/compile.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>

#include "ir/reference.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/allocations.h"
#include "tests/support/counters.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

Graph scale_graph() {
  return parse_graph(R"(graph scale {
    %x = input : f32[4]
    %w = param : f32[4]
    %p = mul(%x, %w)
    %y = add(%p, 1)
    output y = %y
  })");
}

Tensor floats(std::vector<float> values) {
  const auto n = static_cast<int64_t>(values.size());
  return Tensor::of<float>({n}, values);
}

TEST(Executable, AddRunsThroughTheWholeChain) {
  Executable exe = compile(parse_graph(R"(graph add {
    %a = input : f32[2, 3]
    %b = input : f32[3]
    %y = add(%a, %b)
    output y = %y
  })"),
                           full_device());
  const NamedTensors out = exe.run(
      {{"a", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", Tensor::of<float>({3}, {10, 20, 30})}});
  EXPECT_EQ(out.at("y").to_vector<float>(), (std::vector<float>{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(exe.dispatch_count(), 1);
  EXPECT_EQ(submit_count(exe), 1);
}

TEST(Executable, ParamsMayChangeBetweenRuns) {
  Executable exe = compile(scale_graph(), full_device());
  exe.set_param("w", floats({1, 2, 3, 4}));
  EXPECT_EQ(exe.run({{"x", floats({1, 1, 1, 1})}}).at("y").to_vector<float>(),
            (std::vector<float>{2, 3, 4, 5}));
  exe.set_param("w", floats({0, 0, 0, 1}));
  EXPECT_EQ(exe.run({{"x", floats({1, 1, 1, 1})}}).at("y").to_vector<float>(),
            (std::vector<float>{1, 1, 1, 2}));
}

TEST(Executable, LoadPhaseFollowsTheParams) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : f32[2]
    %w = param : f32[2]
    %e = exp(%w)
    %s = sub(%e, 1)
    %y = mul(%x, %s)
    output y = %y
  })"),
                           full_device());
  EXPECT_EQ(exe.plan_report().load.size(), 1u);
  EXPECT_EQ(exe.dispatch_count(), 1);
  exe.set_param("w", floats({0, 0}));
  EXPECT_EQ(exe.run({{"x", floats({1, 2})}}).at("y").to_vector<float>(), (std::vector<float>{0, 0}));
  exe.set_param("w", floats({1, 1}));
  EXPECT_NEAR(exe.run({{"x", floats({1, 2})}}).at("y").to_vector<float>()[1], 2 * (std::exp(1.0) - 1),
              4 * 0x1p-22);
}

TEST(Executable, IntegersAndBoolsKeepTheirValues) {
  Executable exe = compile(parse_graph(R"(graph g {
    %i = input : i64[3]
    %b = input : bool[5]
    %u = input : u8[7]
    %j = add(%i, 1)
    %n = logical_not(%b)
    %v = add(%u, 200)
    output j = %j
    output n = %n
    output v = %v
  })"),
                           full_device());
  const NamedTensors out = exe.run({{"i", Tensor::of<int64_t>({3}, {16777217, -5, 2147483646})},
                                    {"b", Tensor::of<bool>({5}, {true, false, true, true, false})},
                                    {"u", Tensor::of<uint8_t>({7}, {0, 1, 2, 55, 56, 57, 255})}});
  EXPECT_EQ(out.at("j").integers(), (std::vector<int64_t>{16777218, -4, 2147483647}));
  EXPECT_EQ(out.at("n").integers(), (std::vector<int64_t>{0, 1, 0, 0, 1}));
  EXPECT_EQ(out.at("v").integers(), (std::vector<int64_t>{200, 201, 202, 255, 0, 1, 199}));
}

TEST(Executable, ShapesAreBoundWhenRunning) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : f32[batch, 2]
    %w = param : f32[2]
    %y = add(%x, %w)
    output y = %y
  })"),
                           full_device());
  exe.set_param("w", floats({10, 20}));
  for (int64_t batch : {1, 3, 1, 7, 0, 3}) {
    std::vector<float> x(static_cast<size_t>(batch) * 2, 1);
    const Tensor y = exe.run({{"x", Tensor::of<float>({batch, 2}, x)}}).at("y");
    ASSERT_EQ(y.shape(), (std::vector<int64_t>{batch, 2}));
    for (int64_t i = 0; i < y.elements(); ++i) ASSERT_EQ(y.real(i), i % 2 == 0 ? 11 : 21);
  }
}

TEST(Executable, OnlyChosenOutputsIntoTheCallersMemory) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : f32[3]
    %a = neg(%x)
    %b = abs(%x)
    output a = %a
    output b = %b
  })"),
                           full_device());
  const float x[] = {1, -2, 3};
  float b[3] = {};
  const InputRef in[] = {input_from("x", x)};
  const OutputRef out[] = {output_to("b", std::span<float>(b))};
  exe.run(in, out);
  EXPECT_EQ(b[1], 2);
}

TEST(Executable, WarmRunAllocatesNothing) {
  Executable exe = compile(scale_graph(), full_device());
  exe.set_param("w", floats({1, 2, 3, 4}));
  const float x[] = {1, 2, 3, 4};
  float y[4] = {};
  const InputRef in[] = {input_from("x", x)};
  const OutputRef out[] = {output_to("y", std::span<float>(y))};
  for (int i = 0; i < 3; ++i) exe.run(in, out);
  const AllocationCounter counter;
  for (int i = 0; i < 10; ++i) exe.run(in, out);
  EXPECT_EQ(counter.count(), 0);
  EXPECT_EQ(y[3], 17);
}

int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return 0;
}

TEST(Executable, TwoThousandRunsKeepMemoryFlat) {
  Executable exe = compile(scale_graph(), full_device());
  exe.set_param("w", floats({1, 2, 3, 4}));
  const NamedTensors in = {{"x", floats({1, 2, 3, 4})}};
  for (int i = 0; i < 200; ++i) exe.run(in);
  malloc_trim(0);
  const int64_t before = resident_kib();
  for (int i = 0; i < 2000; ++i) exe.run(in);
  malloc_trim(0);
  // A leak of a page per run would be 8 MB.
  EXPECT_LT(resident_kib() - before, 2048);
}

TEST(Executable, SeveralRunsInFlightComeBackInOrder) {
  Executable exe = compile(scale_graph(), full_device());
  exe.set_param("w", floats({1, 1, 1, 1}));
  std::vector<rlx::Run> runs;
  for (int i = 0; i < 16; ++i) {
    const auto f = static_cast<float>(i);
    runs.push_back(exe.run_async({{"x", floats({f, f, f, f})}}));
  }
  for (int i = 15; i >= 0; --i) {
    EXPECT_EQ(runs[static_cast<size_t>(i)].get().at("y").to_vector<float>()[0], static_cast<float>(i + 1));
  }
}

TEST(Executable, ThreadsShareAnExecutable) {
  Executable exe = compile(scale_graph(), full_device());
  exe.set_param("w", floats({1, 2, 3, 4}));
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto f = static_cast<float>(t * 100 + i);
        wrong += exe.run({{"x", floats({f, f, f, f})}}).at("y").to_vector<float>()[3] != 4 * f + 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(Executable, DevicesAreReleasedInAnyOrder) {
  auto first = std::make_unique<Device>(Device::open());
  auto second = std::make_unique<Device>(Device::open());
  auto a = std::make_unique<Executable>(compile(scale_graph(), *first));
  auto b = std::make_unique<Executable>(compile(scale_graph(), *second));
  a->set_param("w", floats({1, 1, 1, 1}));
  b->set_param("w", floats({2, 2, 2, 2}));
  first.reset();
  EXPECT_EQ(a->run({{"x", floats({1, 1, 1, 1})}}).at("y").to_vector<float>()[0], 2);
  a.reset();
  EXPECT_EQ(b->run({{"x", floats({1, 1, 1, 1})}}).at("y").to_vector<float>()[0], 3);
  second.reset();
  EXPECT_EQ(b->run({{"x", floats({2, 1, 1, 1})}}).at("y").to_vector<float>()[0], 5);
}

TEST(Executable, OutputsFeedInputsOnTheDevice) {
  Executable exe = compile(parse_graph(R"(graph counter {
    %x = input : f32[2]
    %y = add(%x, 1)
    output y = %y
  })"),
                           full_device());
  exe.feed("x", "y");
  EXPECT_EQ(exe.run({{"x", floats({0, 10})}}).at("y").to_vector<float>()[1], 11);
  EXPECT_EQ(exe.run(NamedTensors{}).at("y").to_vector<float>()[1], 12);
  EXPECT_EQ(exe.run(NamedTensors{}).at("y").to_vector<float>()[0], 3);
}

TEST(Executable, LossIsAnErrorAndTheExecutableIsRebuilt) {
  Device device = Device::open();
  Executable exe = compile(scale_graph(), device);
  exe.set_param("w", floats({1, 1, 1, 1}));
  const NamedTensors in = {{"x", floats({1, 1, 1, 1})}};
  exe.run(in);
  force_loss(device);
  try {
    exe.run(in);
    FAIL() << "a run on a lost device must fail";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::device_lost) << e.what();
  }
  exe.rebuild(Device::open());
  EXPECT_TRUE(message([&] { exe.run(in); }).contains("no value yet: 'w'"));
  exe.set_param("w", floats({5, 1, 1, 1}));
  EXPECT_EQ(exe.run(in).at("y").to_vector<float>()[0], 6);
}

TEST(Executable, LossDuringARunReachesWhoWaits) {
  Device device = Device::open();
  Executable exe = compile(scale_graph(), device);
  exe.set_param("w", floats({1, 1, 1, 1}));
  rlx::Run run = exe.run_async({{"x", floats({1, 1, 1, 1})}});
  force_loss(device);
  EXPECT_THROW(run.get(), Error);
  EXPECT_THROW(compile(scale_graph(), device), Error);
}

TEST(Executable, WrongCallsSayWhatIsWrongAndChangeNothing) {
  Executable exe = compile(scale_graph(), full_device());
  const NamedTensors in = {{"x", floats({1, 1, 1, 1})}};
  EXPECT_EQ(message([&] { exe.run(in); }), "1 of the graph's params has no value yet: 'w'; call set_param");
  EXPECT_EQ(message([&] { exe.set_param("v", floats({1, 1, 1, 1})); }),
            "the graph has no param named 'v' (it has: w)");
  EXPECT_EQ(message([&] { exe.set_param("w", floats({1, 1})); }),
            "the param 'w' is f32[4], but f32[2] was given");
  EXPECT_EQ(message([&] { exe.set_param("w", Tensor::of<int32_t>({4}, {1, 1, 1, 1})); }),
            "the param 'w' has type f32, but i32 values were given");
  exe.set_param("w", floats({1, 1, 1, 1}));
  EXPECT_EQ(message([&] { exe.run(NamedTensors{}); }), "the input 'x' (f32[4]) was not given");
  EXPECT_EQ(message([&] { exe.run({{"x", floats({1})}}); }), "the input 'x' is [4], but [1] was given");
  EXPECT_EQ(message([&] { exe.run({{"x", Tensor::of<int32_t>({4}, {1, 1, 1, 1})}}); }),
            "the input 'x' has type f32, but i32 values were given");
  EXPECT_EQ(message([&] { exe.run({{"x", floats({1, 1, 1, 1})}, {"z", floats({1})}}); }),
            "the graph 'scale' has no input named 'z'; it has: x");
  EXPECT_EQ(message([&] { exe.run_async(in, {"q"}); }), "the graph 'scale' has no output named 'q'");
  EXPECT_EQ(exe.run(in).at("y").to_vector<float>()[0], 2);
}

TEST(Executable, MemoryThatIsNotThereAndInputsGivenTwiceAreErrors) {
  Executable exe = compile(scale_graph(), full_device());
  exe.set_param("w", floats({1, 2, 3, 4}));
  const std::vector<float> x = {1, 1, 1, 1};
  std::vector<float> y(4);
  EXPECT_SAYS(exe.run({InputRef{"x", DType::f32, nullptr, 16}}, {output_to("y", y)}),
              "the input 'x' has 16 bytes at a null pointer");
  EXPECT_SAYS(exe.run({input_from("x", x)}, {OutputRef{"y", DType::f32, nullptr, 16}}),
              "the output 'y' would have its 16 bytes at a null pointer");
  EXPECT_SAYS(exe.run({input_from("x", x), input_from("x", y)}, {output_to("y", y)}),
              "the input 'x' was given twice");
  EXPECT_SAYS(exe.run({{"x", Tensor::scalar(1.f)}}), "the input 'x' is [4], but [] was given");
  std::vector<float> again(4);
  exe.run({input_from("x", x)}, {output_to("y", y), output_to("y", again)});
  EXPECT_EQ(y, (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(again, y);
  EXPECT_SAYS(compile(scale_graph(), full_device(), {.max_plans = 0}), "max_plans is 0");
}

// A run that is right has a plan, also where the graph would be wrong for other sizes or at the capacities.
TEST(Executable, CapacitiesThatDoNotFitEachOtherOnlyShareNoPlan) {
  Graph whole;  // the cache is filled from total - tokens on
  whole.set_capacity("total", 8);
  const Value rows = whole.input("x", DType::f32, {"tokens", 2});
  const Value state =
      write_state(whole.state("s", DType::f32, {8, 2}), rows, 0, Dim("total") - Dim("tokens"));
  whole.output("y", sum(slice(state, 0, 0, "total"), {0}));
  Executable exe = compile(whole, full_device());
  const auto ones = [](int64_t n) { return Tensor::full(DType::f32, {n, 2}, 1); };
  EXPECT_EQ(exe.run({{"x", ones(8)}}, {{"total", 8}}).at("y").to_vector<float>(), (std::vector<float>{8, 8}));
  EXPECT_EQ(exe.run({{"x", ones(3)}}, {{"total", 3}}).at("y").to_vector<float>(), (std::vector<float>{3, 3}));

  Graph parts;  // from past on
  parts.set_capacity("past", 7);
  const Value more = parts.input("x", DType::f32, {"tokens", 2});
  const Value kept = write_state(parts.state("s", DType::f32, {8, 2}), more, 0, "past");
  parts.output("y", sum(slice(kept, 0, 0, Dim("past") + Dim("tokens")), {0}));
  Executable grown = compile(parts, full_device());
  EXPECT_EQ(grown.run({{"x", ones(3)}}, {{"past", 0}}).at("y").to_vector<float>(),
            (std::vector<float>{3, 3}));
  EXPECT_EQ(grown.run({{"x", ones(2)}}, {{"past", 3}}).at("y").to_vector<float>(),
            (std::vector<float>{5, 5}));
  // The sizes of a run are the caller's.
  try {
    grown.run({{"x", ones(3)}}, {{"past", 6}});
    FAIL() << "there is no room for three more";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    EXPECT_TRUE(std::string(e.what()).contains("with past = 6, tokens = 3: ")) << e.what();
  }
  EXPECT_EQ(grown.run({{"x", ones(3)}}, {{"past", 5}}).at("y").to_vector<float>(),
            (std::vector<float>{8, 8}));
}

TEST(Executable, ALengthThatNoSymbolGivesNamesTheInput) {
  Graph g;
  g.output("y", sum(g.input("x", DType::f32, {2 * Dim("n") + 1}), {0}));
  Executable exe = compile(g, full_device());
  EXPECT_SAYS(exe.run({{"x", floats({1, 2, 3, 4, 5, 6})}}),
              "the input 'x' has 6 elements along axis 0, which no 'n' gives");
  EXPECT_EQ(exe.run({{"x", floats({1, 2, 3})}}).at("y").item<float>(), 6);
}

TEST(Executable, TellsWhatItTakesAndGives) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : f32[batch, 4]
    %w = param : f16[4]
    %unused = param : f32[2]
    %s = state : f32[4]
    %n = write_state(%s, %s) {start=0}
    %y = relu(%x)
    %z = cast(%w) {to=f32}
    output y = %y
    output z = %z
    output n = %n
  })"),
                           full_device(), {.symbols = {{"batch", 3}}});
  const auto text = [](const std::vector<TensorInfo>& infos) {
    std::string out;
    for (const TensorInfo& i : infos) out += i.name + " " + i.type.text() + "; ";
    return out;
  };
  EXPECT_EQ(text(exe.inputs()), "x f32[3, 4]; ");
  EXPECT_EQ(text(exe.params()), "w f16[4]; unused f32[2]; ");
  EXPECT_EQ(text(exe.states()), "s f32[4]; ");
  EXPECT_EQ(text(exe.outputs()), "y f32[3, 4]; z f32[4]; n f32[4]; ");
}

TEST(Executable, CallsTakeVectorsAndBraces) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n"});
  const Value w = g.param("w", DType::f32, {8});
  g.set_capacity("pos", 4);
  g.output("y", x * sum(slice(w, 0, 0, "pos")));
  Executable exe = compile(g, full_device());
  exe.set_param("w", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(exe.run({{"x", Tensor::of({2}, {1.f, 2.f})}}, {{"pos", 3}}).at("y"),
            Tensor::of({2}, {6.f, 12.f}));
  const std::vector<float> in = {10, 20, 30};
  std::vector<float> out(3);
  exe.run({input_from("x", in)}, {output_to("y", out)}, {{"pos", 2}});
  EXPECT_EQ(out, (std::vector<float>{30, 60, 90}));
  exe.run({input_from("x", in, {3})}, {output_to("y", std::span(out).first(3))}, {{"pos", 1}});
  EXPECT_EQ(out, in);
  EXPECT_SAYS(exe.run({{"x", floats({1})}}, {{"pos", -2}}),
              "makes the symbol 'pos' -2; it cannot be negative");
  EXPECT_SAYS(exe.run({{"x", floats({1})}}, {{"pos", 5}}), "more than its capacity 4");
  EXPECT_SAYS(exe.run({{"x", floats({1})}}), "no input of this run determines the symbol 'pos'");
  EXPECT_SAYS(exe.plan_report({{"n", 1}, {"pos", -1}}), "the symbol 'pos' is -1");
}

TEST(Executable, SeveralParamsAreSetAtOnce) {
  Executable exe = compile(
      parse_graph("graph g { %a = param : f32[1]\n %b = param : f32[1]\n %y = add(%a, %b)\n output y = %y }"),
      full_device());
  exe.set_params({{"a", floats({1})}, {"b", floats({2})}});
  EXPECT_EQ(exe.run(NamedTensors{}).at("y"), floats({3}));
  EXPECT_SAYS(exe.set_params({{"a", floats({7})}, {"b", floats({1, 2})}}), "the param 'b' is f32[1]");
  EXPECT_EQ(exe.run(NamedTensors{}).at("y"), floats({3})) << "none of them was set";
}

TEST(Executable, WrongNamesAreFoundBeforeMissingSizes) {
  Graph g;
  g.output("y", relu(g.input("x", DType::f32, {"batch", 2})));
  Executable exe = compile(g, full_device());
  EXPECT_SAYS(exe.run({{"z", floats({1})}}), "has no input named 'z'");
  EXPECT_SAYS(exe.run(NamedTensors{}), "the input 'x' (f32[batch, 2]) was not given");
  EXPECT_SAYS(exe.run({{"x", Tensor::zeros(DType::f32, {int64_t{1} << 40, 2})}}),
              "does not fit in the 32 bits");
  g.set_capacity("Batch", 8);
  EXPECT_SAYS(compile(g, full_device()), "has a capacity for 'Batch', but no dimension uses that symbol");
}

TEST(Executable, AnyNumberOfOutputs) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1});
  std::vector<float> results(50);
  std::vector<std::string> names;
  std::vector<OutputRef> refs;
  for (size_t i = 0; i < results.size(); ++i) names.push_back("y" + std::to_string(i));
  for (size_t i = 0; i < results.size(); ++i) {
    g.output(names[i], x + static_cast<double>(i));
    refs.push_back(output_to(names[i], std::span(&results[i], 1)));
  }
  Executable exe = compile(g, full_device(), {.optimize = false});
  const std::vector<float> one = {1};
  exe.run({input_from("x", one)}, refs);
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], 1 + static_cast<float>(i));
}

TEST(Executable, ValuesOfNodesAreReadByName) {
  Executable exe =
      compile(parse_graph("graph g { %x = input : f32[3]\n %h = neg(%x)\n %y = relu(%h)\n output y = %y }"),
              full_device(), {.optimize = false, .keep_intermediates = true});
  exe.run({{"x", floats({1, -2, 3})}});
  EXPECT_EQ(exe.value("h"), floats({-1, 2, -3}));
  EXPECT_EQ(exe.value("x"), floats({1, -2, 3}));
  EXPECT_SAYS(exe.value("nobody"), "the graph 'g' has no node named 'nobody'");
  EXPECT_SAYS(exe.value("h", 7), "output 7 was requested from the node 'h', which has 1");
}

TEST(Executable, AMovedFromOneSaysSo) {
  Executable exe = compile(scale_graph(), full_device());
  Executable& emptied = exe;
  Executable other = std::move(exe);
  EXPECT_SAYS(emptied.run(NamedTensors{}), "used after it was moved from");
  EXPECT_SAYS(emptied.dispatch_count(), "moved from");
  EXPECT_SAYS(emptied.rebuild(full_device()), "moved from");
  exe = std::move(other);
  EXPECT_EQ(exe.dispatch_count(), 1);
}

TEST(Executable, EmptyTensorsRun) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : f32[0, 3]
    %y = exp(%x)
    output y = %y
  })"),
                           full_device());
  EXPECT_EQ(exe.run({{"x", Tensor::of<float>({0, 3}, {})}}).at("y").elements(), 0);
}

TEST(Executable, ALeafMayBeAnOutput) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : i8[5]
    %c = constant {value=tensor f32[2] (1,2)}
    output same = %x
    output c = %c
  })"),
                           full_device());
  const NamedTensors out = exe.run({{"x", Tensor::of<int8_t>({5}, {1, -2, 3, -4, 5})}});
  EXPECT_EQ(out.at("same").integers(), (std::vector<int64_t>{1, -2, 3, -4, 5}));
  EXPECT_EQ(out.at("c").to_vector<float>()[1], 2);
}

TEST(Executable, BothVariantsOfAKernelInOneProcess) {
  // A cache key that forgot the variant would give one of them the other's pipeline.
  std::mt19937 random(1);
  std::vector<float> a(64 * 64), b(64 * 64);
  for (float& v : a) v = static_cast<float>(random() % 7) - 3;
  for (float& v : b) v = static_cast<float>(random() % 7) - 3;
  std::vector<std::vector<float>> results;
  for (const char* variant : {"rows", "plain", "tiled", "rows"}) {
    Executable exe = compile(parse_graph("graph g { %a = input : f32[64,64]\n %b = input : "
                                         "f32[64,64]\n %y = matmul(%a, %b)\n output y = %y }"),
                             full_device(), {.kernels = {{"matmul", variant}}});
    EXPECT_TRUE(exe.plan_text().contains(variant));
    results.push_back(exe.run({{"a", Tensor::of<float>({64, 64}, a)}, {"b", Tensor::of<float>({64, 64}, b)}})
                          .at("y")
                          .to_vector<float>());
  }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);  // small integers: exact in any order
}

TEST(Executable, AnOutputIsAsLongAsItsCountSays) {
  const Graph g = parse_graph(R"(graph few {
    %x = input : f32[2, 5]
    %wanted = input : i64[1]
    %y = mul(%x, 2)
    %n = sum(%wanted)
    output y = %y counted n along 1
    output n = %n
    output rows = %y counted n
  })");
  EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
  Executable exe = compile(g, full_device());
  const Tensor x = Tensor::of<float>({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const int64_t n : {0, 1, 3, 5, 9, -1}) {
    const NamedTensors inputs = {{"x", x}, {"wanted", Tensor::of<int64_t>({1}, {n})}};
    const NamedTensors got = exe.run(inputs);
    const auto want = run_reference(g, inputs);
    EXPECT_EQ(got.at("n").integer(0), n);
    EXPECT_EQ(got.at("y").shape(), (std::vector<int64_t>{2, std::clamp<int64_t>(n, 0, 5)}));
    EXPECT_EQ(got.at("rows").shape(), (std::vector<int64_t>{std::clamp<int64_t>(n, 0, 2), 5}));
    for (const char* name : {"y", "rows"}) EXPECT_EQ(got.at(name), want.at(name).to_tensor()) << name << n;
    const NamedTensors chosen = exe.run_async(inputs, {"y"}).get();
    ASSERT_EQ(chosen.size(), 1u);
    EXPECT_EQ(chosen.at("y"), got.at("y"));
  }
}

}  // namespace
}  // namespace rlx::testing
