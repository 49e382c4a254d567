// CompileOptions::submit_ms: a device that is too slow for a run in one submit gets it in several, and work
// that is too long for one in parts.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "tests/support/compare.h"
#include "tests/support/counters.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

Tensor random(const std::vector<int64_t>& dims) {
  std::mt19937 generator(3);
  return random_tensor(DType::f32, dims, -1, 1, generator);
}

// Of the second run: the first one also waits for compilers.
int64_t submits_of_run(Executable& exe, const NamedTensors& inputs) {
  exe.run(inputs);
  const int64_t before = submit_count(exe);
  exe.run(inputs);
  return submit_count(exe) - before;
}

// `steps` dispatches over memory of a megabyte, a fraction of a millisecond each.
Graph many_small(int steps) {
  std::string text = "graph g {\n%x0 = input : f32[512, 512]\n";
  for (int i = 0; i < steps; ++i) text += formatted("%x{} = softmax(%x{})\n", i + 1, i);
  return parse_graph(text + formatted("%y = neg(%x0)\noutput y = %x{}\noutput z = %y\n}}", steps));
}

TEST(SubmitTime, LongPlansAreCut) {
  const Graph g = many_small(40);
  const NamedTensors inputs = {{"x0", random({512, 512})}};
  Executable whole = compile(g, full_device(), {.submit_ms = 0});
  Executable cut = compile(g, full_device(), {.submit_ms = 1});
  EXPECT_EQ(submits_of_run(whole, inputs), 1);
  EXPECT_GT(submits_of_run(cut, inputs), 1);
  EXPECT_EQ(submits_of_run(cut, inputs), cut.plan_report().submits);
  EXPECT_EQ(whole.plan_report().submits, 1);
  ASSERT_EQ(cut.plan_report().run.size(), whole.plan_report().run.size());
  const NamedTensors want = whole.run(inputs);
  const NamedTensors got = cut.run(inputs);
  for (const auto& [name, tensor] : want) EXPECT_EQ(got.at(name).doubles(), tensor.doubles()) << name;
  // Every dispatch once, in order, and each submit after the one before.
  const std::vector<DispatchReport> times = cut.profile(inputs);
  ASSERT_EQ(times.size(), cut.plan_report().run.size());
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].step, static_cast<int64_t>(i));
    if (i > 0) {
      EXPECT_GE(times[i].begin_ns, times[i - 1].begin_ns);
    }
  }
}

TEST(SubmitTime, HasNoBoundWhereTheCpuComputes) {
  if (!full_device().caps().software()) GTEST_SKIP() << "the device is a GPU";
  Executable exe = compile(many_small(2000), full_device());
  EXPECT_EQ(submits_of_run(exe, {{"x0", random({512, 512})}}), 1);
}

// The product and the attention alone are estimated to take longer than a submit may.
TEST(SubmitTime, LongWorkIsCut) {
  const Graph g = parse_graph(R"(graph g {
    %x = input : f32[300, 260]
    %w = input : f32[260, 516]
    %b = input : f32[516]
    %s = matmul(%x, %w)
    %y = add(%s, %b)
    %q = input : f32[2, 4, 130, 64]
    %a = attention(%q, %q, %q) {mask="causal"}
    output y = %y
    output a = %a
  })");
  const NamedTensors inputs = {{"x", random({300, 260})},
                               {"w", random({260, 516})},
                               {"b", random({516})},
                               {"q", random({2, 4, 130, 64})}};
  Executable whole = compile(g, full_device(), {.submit_ms = 0});
  Executable cut = compile(g, full_device(), {.submit_ms = 1});
  const auto count = [](const Executable& exe, std::string_view op) {
    return std::ranges::count(exe.plan_report().run, op, &StepReport::op);
  };
  const NamedTensors want = whole.run(inputs);
  const NamedTensors got = cut.run(inputs);
  for (const std::string op : {"matmul", "attention"}) EXPECT_GT(count(cut, op), count(whole, op)) << op;
  EXPECT_GT(submits_of_run(cut, inputs), 1);
  for (const auto& [name, tensor] : want)
    EXPECT_TRUE(close(got.at(name), RefTensor::from(tensor), {.ulps = 16, .terms = 300})) << name;
}

// Submits of a loop are cut as well: what runs in which iteration stays.
TEST(SubmitTime, LoopsAreCut) {
  const Graph g = parse_graph(R"(graph g {
    %x = input : f32[1024, 256]
    %n = input : i32[]
    %go = input : bool[]
    %y = loop(%n, none, %x, %go) {carried=1, body=graph step {
      %i = input : i32[]
      %x = input : f32[1024, 256]
      %go = input : bool[]
      %s = cumsum(%x) {axis=1}
      %y = softmax(%s)
      output go = %go
      output y = %y
    }}
    output y = %y
  })");
  const NamedTensors inputs = {{"x", random({1024, 256})},
                               {"n", Tensor::of<int32_t>({}, {7})},
                               {"go", Tensor::full(DType::bool_, {}, 1)}};
  Executable whole = compile(g, full_device(), {.submit_ms = 0});
  Executable cut = compile(g, full_device(), {.submit_ms = 1});
  EXPECT_GT(submits_of_run(cut, inputs), submits_of_run(whole, inputs));
  EXPECT_EQ(cut.run(inputs).at("y").doubles(), whole.run(inputs).at("y").doubles());
}

TEST(SubmitTime, RefusesLessThanNothing) {
  EXPECT_SAYS(compile(many_small(1), full_device(), {.submit_ms = -1}), "submit_ms is -1");
}

}  // namespace
}  // namespace rlx::testing
