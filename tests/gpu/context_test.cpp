// States apart from executables, and tensors that stay on the device.
#include "rlx/context.h"

#include <gtest/gtest.h>

#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/device_tensor.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/shape.h"
#include "rlx/store.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/allocations.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

Tensor floats(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}

// Puts x at `pos` of a cache and returns all of it.
Graph cache_graph() {
  return parse_graph(R"(graph cache {
    symbol pos <= 7
    %x = input : f32[1]
    %c = state : f32[8]
    %w = write_state(%c, %x) {axis=0, start=dim(pos)}
    %y = neg(%w)
    output y = %y
  })");
}

TEST(Contexts, OneExecutableRunsInMany) {
  Executable exe = compile(cache_graph(), full_device());
  std::vector<Context> chats(4, Context(full_device()));
  for (Context& chat : chats) chat = Context(full_device());
  for (int64_t pos = 0; pos < 8; ++pos) {
    for (size_t c = 0; c < chats.size(); ++c) {
      const auto value = static_cast<float>(10 * c + static_cast<size_t>(pos));
      exe.run(chats[c], {{"x", floats({value})}}, {{"pos", pos}});
    }
  }
  for (size_t c = 0; c < chats.size(); ++c) {
    for (int64_t pos = 0; pos < 8; ++pos)
      EXPECT_EQ(chats[c].read("c").real(pos), static_cast<double>(10 * c) + static_cast<double>(pos));
  }
  EXPECT_EQ(exe.read_state("c"), Tensor::zeros(DType::f32, {8}));  // its own was not used
  EXPECT_EQ(exe.plan_count(), 1);
}

TEST(Contexts, AForkGoesItsOwnWay) {
  Executable exe = compile(cache_graph(), full_device());
  const Context prefix(full_device());
  exe.run(prefix, {{"x", floats({1})}}, {{"pos", 0}});
  const Context branch = prefix.fork();
  exe.run(prefix, {{"x", floats({2})}}, {{"pos", 1}});
  exe.run(branch, {{"x", floats({3})}}, {{"pos", 1}});
  EXPECT_EQ(prefix.read("c"), floats({1, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(branch.read("c"), floats({1, 3, 0, 0, 0, 0, 0, 0}));
}

TEST(Contexts, AreSavedLoadedParkedAndReset) {
  Executable exe = compile(cache_graph(), full_device());
  Context a(full_device());
  EXPECT_TRUE(a.states().empty());
  exe.run(a, {{"x", floats({1})}}, {{"pos", 3}});
  const NamedTensors saved = a.read();
  EXPECT_EQ(a.bytes(), 256u);
  const uint64_t before = full_device().memory().bytes;
  a.park();
  EXPECT_TRUE(a.parked());
  EXPECT_EQ(a.bytes(), 0u);
  EXPECT_EQ(full_device().memory().bytes, before - 256);
  EXPECT_EQ(a.read("c"), saved.at("c"));
  const Context fork = a.fork();
  exe.run(a, {{"x", floats({2})}}, {{"pos", 4}});
  EXPECT_FALSE(a.parked());
  EXPECT_EQ(a.read("c"), floats({0, 0, 0, 1, 2, 0, 0, 0}));
  exe.run(fork, {{"x", floats({9})}}, {{"pos", 0}});
  EXPECT_EQ(fork.read("c"), floats({9, 0, 0, 1, 0, 0, 0, 0}));
  a.reset();
  EXPECT_EQ(a.read("c"), Tensor::zeros(DType::f32, {8}));
  Context b(full_device());
  b.write(saved);
  exe.run(b, {{"x", floats({5})}}, {{"pos", 7}});
  EXPECT_EQ(b.read("c"), floats({0, 0, 0, 1, 0, 0, 0, 5}));
  b.write("c", DeviceTensor(full_device(), floats({1, 2, 3, 4, 5, 6, 7, 8})));
  EXPECT_EQ(b.read("c").real(6), 7);
}

// What a context held is freed with it, although plans have been bound to it.
TEST(Contexts, MemoryGoesWithTheContext) {
  Executable exe = compile(parse_graph(R"(graph g {
    %x = input : f32[1]
    %c = state : f32[1048576]
    %w = write_state(%c, %x) {axis=0, start=5}
    %y = slice(%w) {axis=0, start=5, length=1}
    %z = neg(%y)
    output y = %z
  })"),
                           full_device());
  const uint64_t before = full_device().memory().bytes;
  for (int i = 0; i < 3; ++i) {
    const Context c(full_device());
    EXPECT_EQ(exe.run(c, {{"x", floats({7})}}).at("y").real(0), -7);
    EXPECT_EQ(full_device().memory().bytes, before + (4 << 20));
  }
  EXPECT_EQ(full_device().memory().bytes, before);
}

TEST(Contexts, PrefillAndDecodeShareStates) {
  Executable prefill = compile(parse_graph(R"(graph prefill {
    %x = input : f32[3]
    %c = state : f32[8]
    %w = write_state(%c, %x) {axis=0, start=0}
    %y = sum(%w) {axes=[0]}
    output y = %y
  })"),
                               full_device());
  Executable decode = compile(cache_graph(), full_device());
  const Context chat(full_device());
  EXPECT_EQ(prefill.run(chat, {{"x", floats({1, 2, 3})}}).at("y").real(0), 6);
  const NamedTensors out = decode.run(chat, {{"x", floats({4})}}, {{"pos", 3}});
  EXPECT_EQ(out.at("y").to_vector<float>(), (std::vector<float>{-1, -2, -3, -4, 0, 0, 0, 0}));
  Executable other = compile(parse_graph(R"(graph other {
    %x = input : f32[1]
    %c = state : f32[9]
    %w = write_state(%c, %x) {axis=0, start=0}
    %y = neg(%w)
    output y = %y
  })"),
                             full_device());
  EXPECT_SAYS(other.run(chat, {{"x", floats({1})}}), "the state 'c' is f32[9], but f32[8] in the context");
  EXPECT_SAYS(decode.run(Context(small_device()), {{"x", floats({1})}}, {{"pos", 0}}), "another device");
  EXPECT_SAYS(chat.read("d"), "the context has no state named 'd' (it has: c)");
  EXPECT_SAYS(decode.read_state("d"), "the graph has no state named 'd' (it has: c)");
}

// A run in several submits: its context may be dropped, read and written meanwhile.
TEST(Contexts, RunsWithBranchesHaveThem) {
  Executable exe = compile(parse_graph(R"(graph g {
    %go = input : bool[]
    %x = input : f32[1]
    %c = state : f32[2]
    %v = if(%go, %x) {then=graph a { %v = input : f32[1] %n = neg(%v) output r = %n },
                      else=graph b { %v = input : f32[1] output r = %v }}
    %w = write_state(%c, %v) {axis=0, start=1}
    %y = neg(%w)
    output y = %y
  })"),
                           full_device());
  std::vector<rlx::Run> runs;
  const Context kept(full_device());
  for (const bool go : {true, false}) {
    Context c = go ? Context(full_device()) : kept;
    runs.push_back(exe.run_async(c, {{"go", Tensor::scalar(go)}, {"x", floats({3})}}));
  }
  EXPECT_EQ(runs[0].get().at("y").to_vector<float>(), (std::vector<float>{0, 3}));
  EXPECT_EQ(kept.read("c"), floats({0, 3}));
  EXPECT_EQ(runs[1].get().at("y").to_vector<float>(), (std::vector<float>{0, -3}));
}

TEST(Contexts, ValuesOfStatesGoWithTheContextOfTheLastRun) {
  Executable exe =
      compile(cache_graph(), full_device(), {.symbols = {{"pos", 2}}, .keep_intermediates = true});
  EXPECT_SAYS(exe.value("c"), "gone with their context");  // there was no run
  {
    const Context chat(full_device());
    exe.run(chat, {{"x", floats({5})}});
    EXPECT_EQ(exe.value("c").real(2), 5);
  }
  EXPECT_SAYS(exe.value("c"), "gone with their context");
}

TEST(Contexts, SwitchingAllocatesNothing) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer has its own operator new";
  Executable exe = compile(cache_graph(), full_device());
  const Context a(full_device());
  const Context b(full_device());
  const std::vector<float> x = {1};
  std::vector<float> y(8);
  const InputRef in[] = {input_from("x", x)};
  const OutputRef out[] = {output_to("y", std::span<float>(y))};
  const auto both = [&](int64_t pos) {
    exe.run(a, in, out, {{"pos", pos}});
    exe.run(b, in, out, {{"pos", pos}});
  };
  for (const int64_t pos : {0, 1, 2}) both(pos);
  const AllocationCounter counter;
  for (int i = 0; i < 5; ++i) both(i % 3);
  EXPECT_EQ(counter.count(), 0);
  EXPECT_EQ(y[2], -1);
}

// --- Tensors of the device ---

TEST(DeviceTensors, HalvesOfAModelHandThemOver) {
  Executable first = compile(parse_graph(R"(graph first {
    %x = input : f32[n, 3]
    %h = exp(%x)
    %c = cast(%x) {to=i64}
    output h = %h
    output c = %c
  })"),
                             full_device());
  Executable second = compile(parse_graph(R"(graph second {
    %h = input : f32[n, 3]
    %c = input : i64[n, 3]
    %k = input : f32[3]
    %f = cast(%c) {to=f32}
    %s = sub(%h, %f)
    %y = mul(%s, %k)
    output y = %y
  })"),
                              full_device());
  for (const int64_t n : {2, 1, 5, 0}) {
    const Tensor x = Tensor::full(DType::f32, {n, 3}, 2);
    const NamedDeviceTensors half = first.run_on_device({{"x", x}});
    ASSERT_EQ(half.size(), 2u);
    EXPECT_EQ(half.at("c").type_text(), (TensorType{DType::i64, Shape({n, 3})}.text()));
    // A later run must not change what an earlier one has returned.
    first.run_on_device({{"x", Tensor::zeros(DType::f32, {n, 3})}});
    const Tensor y = second.run({{"h", half.at("h")}, {"c", half.at("c")}, {"k", floats({1, 2, 4})}}).at("y");
    ASSERT_EQ(y.shape(), (std::vector<int64_t>{n, 3}));
    for (int64_t i = 0; i < y.elements(); ++i)
      EXPECT_NEAR(y.real(i), (std::exp(2.0) - 2) * static_cast<double>(1 << i % 3), 1e-5);
  }
  const NamedDeviceTensors some = first.run_on_device({{"x", Tensor::zeros(DType::f32, {1, 3})}}, {"h"});
  EXPECT_EQ(some.size(), 1u);
}

TEST(DeviceTensors, EveryTypeComesBackAsItWas) {
  const Tensor all[] = {floats({1, -2, 3}),
                        Tensor::of<int64_t>({3}, {1, -5, 7}),
                        Tensor::of<bool>({5}, {true, false, true, true, false}),
                        Tensor::from_doubles(DType::f16, {3}, std::vector<double>{1, 0.5, -2}),
                        Tensor::of<uint8_t>({7}, {1, 2, 3, 4, 5, 6, 7}),
                        Tensor::scalar(3.5f),
                        Tensor::zeros(DType::f32, {0, 4})};
  for (const Tensor& t : all) {
    const DeviceTensor on_device(full_device(), t);
    EXPECT_EQ(on_device.type_text(), t.type_text());
    EXPECT_EQ(on_device.read(), t) << t;
    EXPECT_EQ(on_device.clone().read(), t) << t;
  }
  EXPECT_SAYS(DeviceTensor(full_device(), Tensor::of<int64_t>({1}, {int64_t{1} << 40})), "32 bits");
  EXPECT_SAYS(DeviceTensor::zeros(full_device(), DType::f32, {2, -1}), "[2, -1]");
}

TEST(DeviceTensors, WrongOnesAreRefused) {
  Executable exe =
      compile(parse_graph("graph g {\n%x = input : f32[4]\n%y = neg(%x)\noutput y = %y\n}"), full_device());
  const auto zeros = [](const Device& device, DType dtype, int64_t n) {
    return DeviceTensor::zeros(device, dtype, {n});
  };
  EXPECT_SAYS(exe.run({{"x", zeros(full_device(), DType::f32, 5)}}),
              "the input 'x' is [4], but [5] was given");
  EXPECT_SAYS(exe.run({{"x", zeros(full_device(), DType::i32, 4)}}), "has type f32, but i32");
  EXPECT_SAYS(exe.run({{"x", zeros(small_device(), DType::f32, 4)}}), "on another device");
  EXPECT_SAYS(exe.run({{"x", floats({1, 2, 3, 4})}, {"x", floats({1, 2, 3, 4})}}), "given twice");
  EXPECT_SAYS(exe.run_on_device({{"x", floats({1, 2, 3, 4})}}, {"z"}), "no output named 'z'");
  DeviceTensor small = zeros(full_device(), DType::f32, 3);
  const std::vector<float> x = {1, 2, 3, 4};
  EXPECT_SAYS(exe.run({input_from("x", x)}, {output_to("y", small)}), "a tensor of f32[3] was given");
  EXPECT_SAYS(DeviceTensor::zeros(full_device(), DType::f32, {int64_t{1} << 40, 1 << 30}),
              "cannot have the shape");
  Executable two = compile(
      parse_graph(
          "graph g {\n%x = input : f32[4]\n%y = neg(%x)\n%z = exp(%x)\noutput y = %y\noutput z = %z\n}"),
      full_device());
  DeviceTensor one = zeros(full_device(), DType::f32, 4);
  EXPECT_SAYS(two.run({input_from("x", x)}, {output_to("y", one), output_to("z", one)}),
              "were given the same tensor");
}

TEST(DeviceTensors, WhatIsMovedFromIsStillThere) {
  DeviceTensor a(full_device(), floats({1, 2}));
  const DeviceTensor b = std::move(a);
  EXPECT_EQ(a.read(), b.read());  // NOLINT(bugprone-use-after-move): that is what is tested
  Context c(full_device());
  const Context d = std::move(c);
  EXPECT_TRUE(c.states().empty());  // NOLINT(bugprone-use-after-move)
  Store s(full_device());
  const Store t = std::move(s);
  EXPECT_FALSE(s.contains("w"));  // NOLINT(bugprone-use-after-move)
}

TEST(DeviceTensors, InTheCallersMemoryNothingIsAllocated) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer has its own operator new";
  Executable exe = compile(parse_graph("graph g {\n%x = input : f32[4]\n%y = add(%x, 1)\noutput y = %y\n}"),
                           full_device());
  DeviceTensor a(full_device(), floats({1, 2, 3, 4}));
  const InputRef in[] = {input_from("x", a)};
  const OutputRef out[] = {output_to("y", a)};  // the same memory: it is read before it is written
  for (int i = 0; i < 3; ++i) exe.run(in, out);
  const AllocationCounter counter;
  for (int i = 0; i < 7; ++i) exe.run(in, out);
  EXPECT_EQ(counter.count(), 0);
  EXPECT_EQ(a.read(), floats({11, 12, 13, 14}));
}

TEST(DeviceTensors, AnOverflowIsStillAnError) {
  Executable exe = compile(parse_graph("graph g {\n%x = input : i64[2]\n%y = mul(%x, %x)\noutput y = %y\n}"),
                           full_device());
  EXPECT_EQ(exe.run_on_device({{"x", Tensor::of<int64_t>({2}, {3, 4})}}).at("y").read().integer(1), 16);
  EXPECT_SAYS(exe.run_on_device({{"x", Tensor::of<int64_t>({2}, {1 << 20, 4})}}), "32 bits");
}

}  // namespace
}  // namespace rlx::testing
