// Weights that several executables share: one upload, one derivation, one version of the truth.
#include "rlx/store.h"

#include <gtest/gtest.h>

#include "rlx/compile.h"
#include "rlx/context.h"
#include "rlx/device.h"
#include "rlx/device_tensor.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/tensor.h"
#include "tests/support/counters.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

Tensor floats(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}

// y = x * f(w) in some way.
Graph graph_with(const std::string& nodes, const std::string& type = "f32[4]") {
  return parse_graph("graph g {\n%x = input : " + type + "\n%w = param : " + type + "\n" + nodes +
                     "\noutput y = %y\n}");
}
Graph product() { return graph_with("%y = mul(%x, %w)"); }
// exp(w) is load phase: w itself is not needed by runs.
Graph derived(const std::string& then = "mul") {
  return graph_with("%e = exp(%w)\n%y = " + then + "(%x, %e)");
}

std::vector<float> run(Executable& exe, const std::vector<float>& x) {
  return exe.run({{"x", floats(x)}}).at("y").to_vector<float>();
}

TEST(Store, TwoExecutablesShareOneUpload) {
  const Store store(full_device());
  Store handle = store;
  handle.set("w", floats({1, 2, 3, 4}));
  EXPECT_EQ(store.use().tensor_bytes, 0u);  // nobody needs it yet
  EXPECT_EQ(upload_count(store), 0u);
  Executable a = compile(product(), store);
  Executable b = compile(graph_with("%p = mul(%x, %w)\n%y = add(%p, 1)"), store);
  EXPECT_EQ(run(a, {1, 1, 1, 2}), (std::vector<float>{1, 2, 3, 8}));
  EXPECT_EQ(run(b, {1, 1, 1, 2}), (std::vector<float>{2, 3, 4, 9}));
  EXPECT_EQ(upload_count(store), 1u);
  EXPECT_EQ(store.use().tensor_bytes, 16u);
  // A change by one of them is seen by all.
  const uint64_t before = store.version("w");
  a.set_param("w", floats({5, 5, 5, 5}));
  EXPECT_GT(store.version("w"), before);
  EXPECT_EQ(run(b, {1, 1, 1, 2}), (std::vector<float>{6, 6, 6, 11}));
  EXPECT_EQ(run(a, {1, 1, 1, 2}), (std::vector<float>{5, 5, 5, 10}));
  EXPECT_EQ(upload_count(store), 2u);
  EXPECT_EQ(store.read("w"), floats({5, 5, 5, 5}));
  ASSERT_EQ(store.tensors().size(), 1u);
  EXPECT_EQ(store.tensors()[0].type.text(), "f32[4]");
}

TEST(Store, WhatIsDerivedIsSharedIfItIsTheSame) {
  Store store(full_device());
  store.set("w", floats({0, 1, 2, 3}));
  Executable a = compile(derived(), store);
  const auto want = [](float w) { return std::exp(w); };
  EXPECT_FLOAT_EQ(run(a, {1, 1, 1, 1})[2], want(2));
  EXPECT_EQ(store.use().derived_bytes, 16u);
  EXPECT_EQ(store.use().tensor_bytes, 0u);  // only what is derived from it is read
  EXPECT_EQ(upload_count(store), 1u);
  Executable b = compile(derived("add"), store);
  EXPECT_FLOAT_EQ(run(b, {1, 1, 1, 1})[2], want(2) + 1);
  EXPECT_EQ(store.use().derived_bytes, 16u);
  EXPECT_EQ(upload_count(store), 1u);  // nothing had to be made
  // Nearly the same is another tensor.
  Executable c = compile(graph_with("%e = sin(%w)\n%y = mul(%x, %e)"), store);
  EXPECT_FLOAT_EQ(run(c, {1, 1, 1, 1})[2], std::sin(2.0f));
  EXPECT_EQ(store.use().derived_bytes, 32u);
  // Stale everywhere, derived once.
  const uint64_t uploads = upload_count(store);
  store.set("w", floats({0, 1, -1, 3}));
  EXPECT_FLOAT_EQ(run(a, {1, 1, 1, 1})[2], want(-1));
  EXPECT_FLOAT_EQ(run(b, {1, 1, 1, 1})[2], want(-1) + 1);
  EXPECT_FLOAT_EQ(run(c, {1, 1, 1, 1})[2], std::sin(-1.0f));
  EXPECT_EQ(upload_count(store), uploads + 2);  // exp, and sin
}

TEST(Store, WhatNobodyReadsLeavesTheDeviceAndComesBack) {
  Store store(full_device());
  store.set("w", Tensor::full(DType::f32, {1 << 20}, 3));
  const Graph g = graph_with("%y = mul(%x, %w)", "f32[1048576]");
  const NamedTensors x = {{"x", Tensor::full(DType::f32, {1 << 20}, 2)}};
  const uint64_t before = full_device().memory().bytes;
  for (uint64_t i = 1; i <= 2; ++i) {
    Executable exe = compile(g, store);
    EXPECT_EQ(exe.run(x).at("y").real(7), 6);
    EXPECT_EQ(store.use().tensor_bytes, uint64_t{4} << 20);
    EXPECT_EQ(upload_count(store), i);
  }
  EXPECT_EQ(store.use().tensor_bytes, 0u);
  EXPECT_EQ(full_device().memory().bytes, before);
}

TEST(Store, OneNameIsOneTensor) {
  Store store(full_device());
  Executable a = compile(product(), store);
  EXPECT_SAYS(compile(graph_with("%y = mul(%x, %w)", "f32[5]"), store), "one name is one tensor");
  EXPECT_SAYS(compile(graph_with("%y = mul(%x, %w)", "f16[4]"), store),
              "the param 'w' is f16[4], but f32[4]");
  EXPECT_SAYS(store.set("w", floats({1})), "the param 'w' is f32[4], but f32[1] was given");
  EXPECT_SAYS(store.set("w", Tensor::of<int32_t>({4}, {1, 2, 3, 4})), "has type f32, but i32");
  EXPECT_SAYS(run(a, {1, 2, 3, 4}), "'w'");  // it has no value
  Store other(full_device());
  other.set("w", floats({1, 2}));
  EXPECT_SAYS(compile(product(), other), "the param 'w' is f32[4], but the store has f32[2]");
  EXPECT_SAYS(other.read("v"), "the store has no tensor named 'v'");
  EXPECT_EQ(other.version("v"), 0u);
  // All or none.
  EXPECT_SAYS(store.set({{"v", floats({1})}, {"w", floats({1})}}), "'w'");
  EXPECT_FALSE(store.contains("v"));
}

// f32 values for a param of 16 bits, given before and after it is known.
TEST(Store, ValuesAreRoundedToTheTypeOfTheGraph) {
  Store store(full_device());
  store.set("w", floats({1, 2, 3, 0.1f}));
  Executable exe = compile(graph_with("%y = mul(%x, %w)", "bf16[4]"), store);
  const NamedTensors x = {{"x", Tensor::full(DType::bf16, {4}, 1)}};
  EXPECT_EQ(exe.run(x).at("y").real(3), 0.10009765625);
  store.set("w", floats({1, 2, 3, 0.3f}));
  EXPECT_EQ(exe.run(x).at("y").real(3), 0.30078125);
}

// Three weights that one graph reads as one, another alone, and a third in another order.
TEST(Store, JoinedWeightsAreStillThemselves) {
  const auto joined = [](const std::string& order) {
    return parse_graph(
        "graph g {\n%x = input : f32[2, 64]\n%a = param : f32[64, 64]\n%b = param : f32[64, 64]\n"
        "%w = concat(" +
        order +
        ") {axis=0}\n%t = transpose(%w) {perm=[1,0]}\n"
        "%y = matmul(%x, %t)\noutput y = %y\n}");
  };
  Store store(full_device());
  store.set({{"a", Tensor::full(DType::f32, {64, 64}, 1)}, {"b", Tensor::full(DType::f32, {64, 64}, 2)}});
  const NamedTensors x = {{"x", Tensor::full(DType::f32, {2, 64}, 1)}};
  Executable ab = compile(joined("%a, %b"), store);
  Executable same = compile(joined("%a, %b"), store);
  Executable ba = compile(joined("%b, %a"), store);
  Executable alone = compile(
      parse_graph("graph g {\n%x = input : f32[2, 64]\n%b = param : f32[64, 64]\n%y = matmul(%x, %b)\n"
                  "output y = %y\n}"),
      store);
  const auto check = [&](double a, double b) {
    for (Executable* exe : {&ab, &same}) {
      EXPECT_EQ(exe->run(x).at("y").real(0), 64 * a);
      EXPECT_EQ(exe->run(x).at("y").real(64), 64 * b);
    }
    EXPECT_EQ(ba.run(x).at("y").real(0), 64 * b);
    EXPECT_EQ(ba.run(x).at("y").real(64), 64 * a);
    EXPECT_EQ(alone.run(x).at("y").real(5), 64 * b);
  };
  check(1, 2);
  store.set("b", Tensor::full(DType::f32, {64, 64}, 5));
  check(1, 5);
}

// --- Training ---

Graph training_step() {
  return parse_graph(R"(graph train {
    %step = input : f32[4]
    %w = param : f32[4]
    %next = sub(%w, %step)
    %kept = write_state(%w, %next) {axis=0, start=0}
    %old = neg(%w)
    output old = %old
    output now = %kept
  })");
}

TEST(Store, AParamThatAGraphWritesIsSeenByOthersWithoutACopy) {
  Store store(full_device());
  store.set("w", floats({1, 2, 3, 4}));
  for (const bool evaluation_first : {false, true}) {
    store.set("w", floats({1, 2, 3, 4}));
    std::optional<Executable> early;
    if (evaluation_first) early.emplace(compile(product(), store));
    Executable train = compile(training_step(), store);
    Executable plain = early ? std::move(*early) : compile(product(), store);
    Executable of_derived = compile(derived(), store);
    EXPECT_FLOAT_EQ(run(of_derived, {1, 1, 1, 1})[1], std::exp(2.0f));
    for (int i = 1; i <= 3; ++i) {
      const uint64_t version = store.version("w");
      const NamedTensors out = train.run({{"step", floats({1, 1, 1, 1})}});
      EXPECT_EQ(out.at("now"), floats({1.0f - i, 2.0f - i, 3.0f - i, 4.0f - i}));
      EXPECT_EQ(out.at("old").to_vector<float>(),
                (std::vector<float>{i - 2.0f, i - 3.0f, i - 4.0f, i - 5.0f}));
      EXPECT_GT(store.version("w"), version);
      EXPECT_EQ(run(plain, {1, 1, 1, 1}), (std::vector<float>{1.0f - i, 2.0f - i, 3.0f - i, 4.0f - i}));
      EXPECT_FLOAT_EQ(run(of_derived, {1, 1, 1, 1})[1], std::exp(2.0f - i));
    }
    EXPECT_EQ(store.use().tensor_bytes, 16u);  // one place for all
    EXPECT_EQ(store.read("w"), floats({-2, -1, 0, 1}));
  }
  // What was learned stays, although no executable is left.
  EXPECT_EQ(store.read("w"), floats({-2, -1, 0, 1}));
  Executable later = compile(product(), store);
  EXPECT_EQ(run(later, {1, 1, 1, 1}), (std::vector<float>{-2, -1, 0, 1}));
}

// A weight that another graph reads as a part of a larger one, and that this one writes beside its neighbour.
TEST(Store, APartOfJoinedWeightsCanBeWritten) {
  Store store(full_device());
  store.set({{"a", Tensor::full(DType::f32, {64, 64}, 1)}, {"b", Tensor::full(DType::f32, {64, 64}, 2)}});
  Executable joined = compile(
      parse_graph("graph g {\n%x = input : f32[2, 64]\n%a = param : f32[64, 64]\n%b = param : f32[64, 64]\n"
                  "%w = concat(%a, %b) {axis=0}\n%t = transpose(%w) {perm=[1,0]}\n"
                  "%y = matmul(%x, %t)\noutput y = %y\n}"),
      store);
  Executable train =
      compile(parse_graph("graph g {\n%a = param : f32[64, 64]\n%b = param : f32[64, 64]\n%s = add(%a, %b)\n"
                          "%u = write_state(%a, %s) {axis=0, start=0}\noutput u = %u\n}"),
              store);
  const NamedTensors x = {{"x", Tensor::full(DType::f32, {2, 64}, 1)}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(joined.run(x).at("y").real(0), 64 * (1 + 2 * i));
    EXPECT_EQ(joined.run(x).at("y").real(64), 128);
    EXPECT_EQ(train.run(NamedTensors{}).at("u").real(5), 3 + 2 * i);
  }
}

TEST(Store, BodiesHaveNothingToDoWithWrittenParams) {
  const Graph reads = parse_graph(R"(graph g {
    %c = input : bool[]
    %x = input : f32[4]
    %w = param : f32[4]
    %u = write_state(%w, %x) {axis=0, start=0}
    %y = if(%c) {then=graph a { %w = param : f32[4] output r = %w }, else=graph b { %w = param : f32[4] output r = %w }}
    output u = %u
    output y = %y
  })");
  EXPECT_SAYS(verify(reads), "the body 'a' reads the param 'w', which the graph writes");
  const Graph writes = parse_graph(R"(graph g {
    %c = input : bool[]
    %x = input : f32[4]
    %y = if(%c, %x) {then=graph a { %x = input : f32[4] %w = param : f32[4]
                                    %u = write_state(%w, %x) {axis=0, start=0} output r = %u },
                     else=graph b { %x = input : f32[4] output r = %x }}
    output y = %y
  })");
  EXPECT_SAYS(verify(writes), "the body 'a' writes the param 'w'");
}

TEST(Store, TensorsOfTheDeviceBecomeParams) {
  Store store(full_device());
  Executable exe = compile(product(), store);
  Executable of_derived = compile(derived(), store);
  const DeviceTensor w(full_device(), floats({1, 2, 3, 4}));
  store.set("w", w);
  EXPECT_EQ(run(exe, {1, 1, 1, 1}), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_FLOAT_EQ(run(of_derived, {1, 1, 1, 1})[1], std::exp(2.0f));
  EXPECT_EQ(upload_count(store), 0u);
  EXPECT_SAYS(store.set("w", DeviceTensor::zeros(full_device(), DType::f32, {5})), "but f32[5] was given");
  EXPECT_SAYS(store.set("w", DeviceTensor::zeros(small_device(), DType::f32, {4})), "another device");
  EXPECT_EQ(store.read("w"), floats({1, 2, 3, 4}));
}

TEST(Store, RebuildTakesTheTensorsOfAnotherStore) {
  Store first(full_device());
  first.set("w", floats({1, 2, 3, 4}));
  Executable exe = compile(product(), first);
  EXPECT_EQ(run(exe, {1, 1, 1, 1})[3], 4);
  Store second(small_device());
  second.set("w", floats({5, 6, 7, 8}));
  exe.rebuild(second);
  EXPECT_EQ(run(exe, {1, 1, 1, 1})[3], 8);
  first.set("w", floats({9, 9, 9, 9}));  // no longer its own
  EXPECT_EQ(run(exe, {1, 1, 1, 1})[3], 8);
}

// --- A budget ---

TEST(Store, WhatDoesNotFitIsRefusedAndPlansMakeRoom) {
  const Device device = Device::open({.memory_budget = 10 << 20});
  EXPECT_EQ(device.memory().budget_bytes, uint64_t{10} << 20);
  Store store(device);
  store.set("w", Tensor::full(DType::f32, {1 << 20}, 3));
  store.set("big", Tensor::full(DType::f32, {3 << 20}, 3));
  EXPECT_SAYS(compile(parse_graph("graph g {\n%x = input : f32[1]\n%big = param : f32[3145728]\n"
                                  "%y = mul(%x, %big)\noutput y = %y\n}"),
                      store),
              "the largest are 'big' (12582912 bytes)");
  EXPECT_EQ(upload_count(store), 0u);
  // Each plan has two buffers of n floats. Together they do not fit: the others are dropped and made again.
  const Graph chain = parse_graph(
      "graph g {\n%x = input : f32[n]\n%w = param : f32[1048576]\n"
      "%h = slice(%w) {axis=0, start=0, length=1}\n%m = mul(%x, %h)\n"
      "%y = cumsum(%m) {axis=0}\noutput y = %y\n}");
  Executable a = compile(chain, store);
  Executable b = compile(chain, store);
  Executable other = compile(product(), device);  // a store of its own
  other.set_param("w", floats({1, 2, 3, 4}));
  for (int round = 0; round < 3; ++round) {
    for (const int64_t n : {400000, 300000, 200000}) {
      for (Executable* exe : {&a, &b})
        EXPECT_EQ(exe->run({{"x", Tensor::full(DType::f32, {n}, 1)}}).at("y").real(7), 24) << n;
    }
    EXPECT_EQ(run(other, {1, 1, 1, 1})[3], 4);
  }
  EXPECT_LE(device.memory().most_bytes, uint64_t{10} << 20);
  EXPECT_GT(a.plan_count(), 3);
  EXPECT_SAYS(a.run({{"x", Tensor::full(DType::f32, {5000000}, 1)}}), "bytes");
  EXPECT_EQ(a.run({{"x", Tensor::full(DType::f32, {3}, 1)}}).at("y").real(2), 9);
}

// A product of x with e^w or with w itself, 4 MiB each.
Graph large(const std::string& param, bool derives) {
  return parse_graph("graph g {\n%x = input : f32[1]\n%" + param + " = param : f32[1048576]\n" +
                     (derives ? "%e = exp(%" + param + ")\n" : "") + "%m = mul(%x, %" +
                     (derives ? "e" : param) + ")\n%y = max(%m)\noutput y = %y\n}");
}
double largest(Executable& exe) { return exe.run({{"x", floats({2})}}).at("y").real(0); }

TEST(Store, WeightsThatCanBeHadAgainMakeRoom) {
  const Device device = Device::open({.memory_budget = 14 << 20});
  Store store(device);
  store.set("a", Tensor::full(DType::f32, {1 << 20}, 1));
  store.set("b", Tensor::full(DType::f32, {1 << 20}, 2));
  store.set("c", Tensor::full(DType::f32, {1 << 20}, 3));
  Executable a = compile(large("a", true), store);
  EXPECT_NEAR(largest(a), 2 * std::exp(1), 1e-5);
  Executable b = compile(large("b", true), store);
  EXPECT_NEAR(largest(b), 2 * std::exp(2), 1e-5);
  Executable c = compile(large("c", false), store);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(largest(c), 6);
    EXPECT_NEAR(largest(a), 2 * std::exp(1), 1e-5);
    EXPECT_NEAR(largest(b), 2 * std::exp(2), 1e-5);
  }
  store.set("b", Tensor::full(DType::f32, {1 << 20}, 0));
  EXPECT_NEAR(largest(a), 2 * std::exp(1), 1e-5);
  EXPECT_EQ(largest(b), 2);
  EXPECT_EQ(largest(c), 6);
  EXPECT_LE(device.memory().most_bytes, uint64_t{14} << 20);
}

TEST(Store, WhatHasMadeRoomCanBeSet) {
  const Device device = Device::open({.memory_budget = 14 << 20});
  Store store(device);
  store.set({{"a", Tensor::full(DType::f32, {1 << 20}, 1)}, {"b", Tensor::full(DType::f32, {1 << 20}, 2)}});
  Executable a = compile(large("a", false), store);
  Executable b = compile(large("b", true), store);
  EXPECT_EQ(largest(a), 2);
  EXPECT_NEAR(largest(b), 2 * std::exp(2), 1e-5);
  EXPECT_LE(store.use().tensor_bytes + store.use().derived_bytes, uint64_t{14} << 20);
  store.set("a", Tensor::full(DType::f32, {1 << 20}, 5));
  b.set_param("b", Tensor::full(DType::f32, {1 << 20}, 0));
  EXPECT_EQ(largest(a), 10);
  EXPECT_EQ(largest(b), 2);
  EXPECT_EQ(largest(a), 10);
  EXPECT_LE(device.memory().most_bytes, uint64_t{14} << 20);
}

TEST(Store, TrainedParamsAreNotLostToMakeRoom) {
  const Device device = Device::open({.memory_budget = 18 << 20});
  Store store(device);
  store.set("a", Tensor::full(DType::f32, {1 << 20}, 1));
  store.set("b", Tensor::full(DType::f32, {1 << 20}, 2));
  Executable train = compile(parse_graph("graph g {\n%a = param : f32[1048576]\n%n = add(%a, 1)\n"
                                         "%w = write_state(%a, %n)\noutput a = %w\n}"),
                             store);
  train.run_on_device({});
  Executable b = compile(large("b", true), store);
  Executable again = compile(large("b", false), store);
  for (int round = 0; round < 2; ++round) {
    EXPECT_NEAR(largest(b), 2 * std::exp(2), 1e-5);
    EXPECT_EQ(largest(again), 4);
  }
  Executable a = compile(large("a", false), store);
  EXPECT_EQ(largest(a), 4);
  EXPECT_EQ(store.read("a").real(77), 2);
}

TEST(Store, IdleContextsMakeRoom) {
  const Device device = Device::open({.memory_budget = 8 << 20});
  Store store(device);
  Executable step =
      compile(parse_graph("graph g {\n%x = input : f32[1]\n%s = state : f32[262144]\n%n = add(%s, %x)\n"
                          "%w = write_state(%s, %n)\n%y = max(%w)\noutput y = %y\n}"),
              store);
  std::vector<Context> contexts;
  for (int i = 0; i < 12; ++i) contexts.emplace_back(device);
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 12; ++i) {
      const Tensor x = floats({static_cast<float>(i + 1)});
      EXPECT_EQ(step.run(contexts[static_cast<size_t>(i)], {{"x", x}}).at("y").real(0), round * (i + 1));
    }
  }
  EXPECT_TRUE(contexts[0].parked());
  EXPECT_FALSE(contexts[11].parked());
  // Also for contexts that have not run, and for tensors.
  const Tensor state = Tensor::full(DType::f32, {1 << 18}, 1);
  for (int i = 0; i < 12; ++i) {
    contexts.emplace_back(device);
    contexts.back().write("s", state);
    contexts.push_back(contexts.back().fork());
  }
  const DeviceTensor tensor = DeviceTensor::zeros(device, DType::f32, {1 << 20});
  EXPECT_EQ(step.run(contexts.back(), {{"x", floats({3})}}).at("y").real(0), 4);
  EXPECT_EQ(step.run(contexts[12], {{"x", floats({3})}}).at("y").real(0), 4);
  EXPECT_LE(device.memory().most_bytes, uint64_t{8} << 20);
}

}  // namespace
}  // namespace rlx::testing
