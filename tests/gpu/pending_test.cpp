// What is under way: compilations, runs and devices that are waited for, asked about, cancelled or dropped.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "gpu/device.h"
#include "rlx/call.h"
#include "rlx/compile.h"
#include "rlx/custom_op.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/pending.h"
#include "rlx/progress.h"
#include "rlx/tensor.h"
#include "runtime/device_access.h"
#include "tests/support/counters.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

// Four kernels of their own.
constexpr const char* kSteps = R"(graph steps {
  %x = input : f32[n, 8]
  %a = exp(%x)
  %b = softmax(%a)
  %c = cumsum(%b)
  %d = sum(%c) {axes=[1]}
  output d = %d
})";
constexpr const char* kParam = R"(graph param {
  %x = input : f32[n]
  %w = param : f32[1]
  %s = cumsum(%x)
  %y = add(%s, %w)
  output y = %y
})";

// As long as the sum is below the limit, adds 1 to x and to a state.
constexpr const char* kWhile = R"(graph counts {
  %x = input : f32[3]
  %limit = input : f32[]
  %s = state : f32[1]
  %y = loop(none, none, %x, %s, %limit) {carried=2, body=graph step {
    %i = input : i32[]
    %x = input : f32[3]
    %n = input : f32[1]
    %limit = input : f32[]
    %z = add(%x, 1)
    %m = add(%n, 1)
    %s = sum(%z)
    %more = less(%s, %limit)
    output more = %more
    output z = %z
    output m = %m
  }}
  %w = write_state(%s, %y:1)
  output y = %y
  output n = %w
})";

Tensor rows(int64_t n) { return Tensor::full(DType::f32, {n, 8}, 0); }
NamedTensors counting(float steps) {
  return {{"x", Tensor::of<float>({3}, {0, 0, 0})}, {"limit", Tensor::of<float>({}, {3 * steps})}};
}
// Nothing is found on disk, and nothing is made outside of our calls.
Device without_threads() { return Device::open({.disk_cache = false, .worker_threads = false}); }

ErrorKind kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

TEST(Pending, ACompilationWithoutThreadsMakesOnePipelineAtATime) {
  const Device device = without_threads();
  Pending<Executable> pending = compile_async(parse_graph(kSteps), device, {.symbols = {{"n", 3}}});
  std::vector<int64_t> done;
  while (!pending.ready()) {
    const ProgressReport report = pending.progress();
    EXPECT_EQ(report.stage, ProgressStage::pipelines);
    EXPECT_GE(report.total, 3);
    done.push_back(report.done);
  }
  ASSERT_GE(done.size(), 2u);
  for (size_t i = 1; i < done.size(); ++i) EXPECT_EQ(done[i], done[i - 1] + 1);
  EXPECT_EQ(pending.progress().done, pending.progress().total);
  Executable exe = pending.get();
  EXPECT_EQ(exe.run({{"x", rows(3)}}).at("d").shape(), std::vector<int64_t>{3});
  EXPECT_SAYS(pending.get(), "already been taken");
}

TEST(Pending, ARunWithoutThreadsNeverBlocksUntilItIsWaitedFor) {
  const Device device = without_threads();
  Executable exe = compile(parse_graph(kSteps), device);
  rlx::Run run = exe.run_async({{"x", rows(5)}});
  EXPECT_EQ(submit_count(exe), 0) << "no kernel has been compiled yet";
  EXPECT_EQ(run.get().at("d").elements(), 5);
}

TEST(Pending, RunsGoOnInPollAndCallBack) {
  const Device device = without_threads();
  Executable exe = compile(parse_graph(kSteps), device);
  int called = 0;
  rlx::Run run = exe.run_async({{"x", rows(5)}});
  run.then([&] {
    ++called;
    EXPECT_EQ(run.get().at("d").shape(), std::vector<int64_t>{5});
  });
  EXPECT_EQ(called, 0);
  int polls = 0;
  while (device.poll()) ++polls;
  EXPECT_GE(polls, 1) << "not all pipelines in one";
  EXPECT_EQ(called, 1);
  EXPECT_FALSE(device.poll());
  EXPECT_EQ(called, 1);

  // One that has ended already, and one that is waited for.
  rlx::Run again = exe.run_async({{"x", rows(5)}});
  while (!again.ready()) {
  }
  again.then([&] { ++called; });
  EXPECT_EQ(called, 2);
  rlx::Run waited = exe.run_async({{"x", rows(5)}});
  waited.then([&] { ++called; });
  waited.get();
  EXPECT_EQ(called, 3);
}

TEST(Pending, CompilationsCallBackToo) {
  const Device device = Device::open();
  std::optional<Executable> made;
  Pending<Executable> pending = compile_async(parse_graph(kSteps), device, {.symbols = {{"n", 2}}});
  pending.then([&] { made = pending.get(); });
  while (device.poll()) std::this_thread::yield();
  ASSERT_TRUE(made);
  EXPECT_EQ(made->run({{"x", rows(2)}}).at("d").shape(), std::vector<int64_t>{2});
}

TEST(Pending, ErrorsArriveWithTheResult) {
  int called = 0;
  Executable exe = compile(parse_graph(kParam), without_threads());
  rlx::Run run = exe.run_async({{"x", Tensor::of<float>({2}, {1, 2})}});
  run.then([&] { ++called; });
  EXPECT_SAYS(run.get(), "no value yet: 'w'");
  EXPECT_EQ(called, 1);
  exe.set_param("w", Tensor::of<float>({1}, {1}));
  EXPECT_EQ(exe.run({{"x", Tensor::of<float>({2}, {1, 2})}}).at("y").doubles(), (std::vector<double>{2, 4}));
}

TEST(Pending, ACancelledRunMakesNoFurtherSubmit) {
  Executable exe = compile(parse_graph(kWhile), full_device());
  rlx::Run run = exe.run_async(counting(1e6));
  while (submit_count(exe) < 3) run.ready();
  const int64_t submits = submit_count(exe);
  run.cancel();
  EXPECT_TRUE(run.ready());
  EXPECT_EQ(kind_of([&] { run.get(); }), ErrorKind::cancelled);
  EXPECT_EQ(submit_count(exe), submits);
  // The state is written at the end of a run: that one never came there.
  EXPECT_EQ(exe.run(counting(4)).at("n").doubles(), std::vector<double>{4});
  EXPECT_EQ(exe.run(counting(2)).at("n").doubles(), std::vector<double>{6});
}

TEST(Pending, CancellingReachesAThreadThatWaits) {
  Executable exe = compile(parse_graph(kWhile), full_device());
  rlx::Run run = exe.run_async(counting(1e6));  // minutes
  std::thread waiter([&] { EXPECT_EQ(kind_of([&] { run.get(); }), ErrorKind::cancelled); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  run.cancel();
  waiter.join();
  EXPECT_EQ(exe.run(counting(3)).at("y").doubles(), std::vector<double>(3, 3));
}

// A loop that ends by its trips alone, far from now.
constexpr const char* kEndless = R"(graph endless {
  %x = input : f32[3]
  %trips = input : i32[]
  %y = loop(%trips, none, %x) {carried=1, body=graph step {
    %i = input : i32[]
    %x = input : f32[3]
    %z = add(%x, 1)
    %more = constant {value=tensor bool[] fill 1}
    output more = %more
    output z = %z
  }}
  output y = %y
})";
NamedTensors trips(int32_t n) {
  return {{"x", Tensor::of<float>({3}, {0, 0, 0})}, {"trips", Tensor::of<int32_t>({}, {n})}};
}

TEST(Pending, LoopsWithoutAConditionAreNotSubmittedWhole) {
  Executable exe = compile(parse_graph(kEndless), full_device());
  EXPECT_EQ(exe.run(trips(9000)).at("y").doubles(), std::vector<double>(3, 9000));
  rlx::Run run = exe.run_async(trips(2000000000));
  std::thread waiter([&] { EXPECT_EQ(kind_of([&] { run.get(); }), ErrorKind::cancelled); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  run.cancel();
  waiter.join();
  exe.run_async(trips(2000000000));  // ends with its executable
}

TEST(Pending, WhatACallbackThrowsReachesItsCallerAlone) {
  const Device device = Device::open();
  Executable exe = compile(parse_graph(kSteps), device);
  rlx::Run throws = exe.run_async({{"x", rows(5)}});
  rlx::Run other = exe.run_async({{"x", rows(5)}});
  int called = 0;
  int thrown = 0;
  try {
    throws.then([] { throw 42; });
  } catch (int) {
    ++thrown;  // it had ended already
  }
  other.then([&] { ++called; });
  for (bool more = true; more;) {
    try {
      more = device.poll();
    } catch (int) {
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(throws.get().at("d").elements(), 5);
}

TEST(Pending, CancellingWhatHasEndedChangesNothing) {
  Executable exe = compile(parse_graph(kWhile), full_device());
  rlx::Run run = exe.run_async(counting(3));
  while (!run.ready()) {
  }
  run.cancel();
  EXPECT_EQ(run.get().at("y").doubles(), std::vector<double>(3, 3));
}

TEST(Pending, ACancelledOrDroppedCompilationEnds) {
  const Device device = without_threads();
  Pending<Executable> pending = compile_async(parse_graph(kSteps), device, {.symbols = {{"n", 3}}});
  EXPECT_FALSE(pending.ready());
  pending.cancel();
  EXPECT_EQ(kind_of([&] { pending.get(); }), ErrorKind::cancelled);
  compile_async(parse_graph(kSteps), device, {.symbols = {{"n", 3}}});
  compile_async(parse_graph(kSteps), Device::open({.disk_cache = false}), {.symbols = {{"n", 3}}});
  EXPECT_EQ(compile(parse_graph(kSteps), device).run({{"x", rows(3)}}).at("d").elements(), 3);
}

TEST(Pending, RunsThatAreStillBeingPlannedFollowEachOther) {
  Executable exe = compile(parse_graph(kSteps), without_threads());
  rlx::Run five = exe.run_async({{"x", rows(5)}});
  rlx::Run six = exe.run_async({{"x", rows(6)}});
  rlx::Run seven = exe.run_async({{"x", rows(7)}});
  exe = compile(parse_graph(kSteps), full_device());  // they are taken to their ends
  EXPECT_EQ(seven.get().at("d").elements(), 7);
  EXPECT_EQ(five.get().at("d").elements(), 5);
  EXPECT_EQ(six.get().at("d").elements(), 6);
}

TEST(Pending, InputsOfARunThatWaitsAreItsOwn) {
  Executable exe = compile(parse_graph(kParam), without_threads());
  exe.set_param("w", Tensor::of<float>({1}, {1}));
  rlx::Run run;
  {
    const NamedTensors inputs = {{"x", Tensor::of<float>({2}, {1, 2})}};
    run = exe.run_async(inputs);
  }
  EXPECT_EQ(run.get().at("y").doubles(), (std::vector<double>{2, 4}));
}

TEST(Pending, ADeviceOpensWithoutWaiting) {
  Pending<Device> pending = Device::open_async();
  int called = 0;
  pending.then([&] { ++called; });
  while (!pending.ready()) std::this_thread::yield();
  EXPECT_EQ(called, 1);
  const Device device = pending.get();
  EXPECT_EQ(compile(parse_graph(kSteps), device).run({{"x", rows(3)}}).at("d").elements(), 3);
  Device::open_async();  // and one that nobody takes
  EXPECT_SAYS(Device::open_async({.adapter_name = "no such adapter"}), "no such adapter");
}

TEST(Pending, AKernelThatTheDeviceRefusesNamesItsNode) {
  register_op({.name = "test_too_much_memory",
               .formula = "nothing",
               .wgsl = R"(
    //@ in x float
    //@ out y float
    //@ use flat
    struct Params { first: u32, end: u32, }
    var<workgroup> memory: array<f32, 60000>;
    fn element(i: u32) -> y_t { memory[i] = x_at(i); return memory[i + 1u]; }
    fn owns(i: u32) -> bool { return x_has(x_flat(i)); }
  )",
               .reference = [](CustomReference&) {}});
  const Graph graph = parse_graph(R"(graph g {
    %x = input : f32[n]
    %culprit = test_too_much_memory(%x)
    output y = %culprit
  })");
  for (const bool threads : {false, true}) {
    const Device device = Device::open({.disk_cache = false, .worker_threads = threads});
    EXPECT_SAYS(compile(graph, device, {.symbols = {{"n", 4}}}), "'culprit'");
    EXPECT_SAYS(compile_async(graph, device, {.symbols = {{"n", 4}}}).get(), "'culprit'");
    Executable exe = compile(graph, device);
    EXPECT_SAYS(exe.run_async({{"x", Tensor::of<float>({2}, {1, 2})}}).get(), "'culprit'");
  }
}

TEST(Pending, AnErrorThatArrivesLaterIsTheRunsThatWaits) {
  const Device device = Device::open();
  Executable exe = compile(parse_graph(kSteps), device);
  exe.run({{"x", rows(3)}});
  rlx::Run run = exe.run_async({{"x", rows(3)}});
  std::thread([&] { DeviceAccess::get(device)->force_error("a late complaint"); }).join();
  const std::string said = message([&] { run.get(); });
  EXPECT_TRUE(said.contains("a late complaint")) << said;
  EXPECT_TRUE(said.contains("the graph 'steps'")) << said;
  EXPECT_EQ(exe.run({{"x", rows(3)}}).at("d").elements(), 3) << "it is told once";
}

}  // namespace
}  // namespace rlx::testing
