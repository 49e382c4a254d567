// DeviceOptions::progress: what a listener is told, and that runs compute the same with one.
#include "rlx/progress.h"

#include <gtest/gtest.h>

#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/reductions.h"
#include "rlx/tensor.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

struct Heard {
  std::vector<ProgressReport> reports;

  Device device() {
    return Device::open({.progress = [this](const ProgressReport& r) { reports.push_back(r); }});
  }
  // Those of a stage, which begin with nothing done and end with all of it.
  std::vector<int64_t> take(ProgressStage stage, int64_t total) {
    std::vector<int64_t> done;
    for (const ProgressReport& r : reports) {
      if (r.stage != stage) continue;
      EXPECT_EQ(r.total, total);
      done.push_back(r.done);
    }
    EXPECT_TRUE(std::ranges::is_sorted(done, std::less_equal()));
    EXPECT_EQ(done.empty() ? -1 : done.front(), 0);
    EXPECT_EQ(done.empty() ? -1 : done.back(), total);
    return done;
  }
};

// Kernels of four kinds, and the last dispatch is of a pipeline that was used before.
constexpr const char* kGraph = R"(graph steps {
  %x = input : f32[8, 8]
  %a = exp(%x)
  %b = softmax(%a)
  %c = matmul(%b, %x)
  %d = sum(%c) {axes=[1]}
  %e = exp(%c)
  %f = exp(%e)
  output d = %d
  output f = %f
})";

constexpr const char* kWhile = R"(graph g {
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
})";

Tensor input() {
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) / 16 - 0.2F;
  return Tensor::of({8, 8}, values);
}

TEST(Progress, TellsOfPipelinesAndOfFirstDispatches) {
  Heard heard;
  const Device device = heard.device();
  Executable exe = compile(parse_graph(kGraph), device, {.optimize = false});
  ASSERT_EQ(exe.dispatch_count(), 6);
  // One for each kind of node, and another where it works in place.
  const std::vector<int64_t> made = heard.take(ProgressStage::pipelines, 5);
  EXPECT_EQ(made, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  heard.reports.clear();

  const NamedTensors inputs = {{"x", input()}};
  const NamedTensors first = exe.run(inputs);
  EXPECT_EQ(heard.take(ProgressStage::first_run, 6), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(std::ranges::count(heard.reports, ProgressStage::pipelines, &ProgressReport::stage), 0);
  heard.reports.clear();

  const NamedTensors second = exe.run(inputs);
  EXPECT_TRUE(heard.reports.empty()) << "nothing takes long any more";
  Executable other = compile(parse_graph(kGraph), full_device(), {.optimize = false});
  const NamedTensors want = other.run(inputs);
  for (const auto& [name, value] : want) {
    EXPECT_EQ(first.at(name).to_vector<float>(), value.to_vector<float>()) << name;
    EXPECT_EQ(second.at(name).to_vector<float>(), value.to_vector<float>()) << name;
  }
}

// A run in several submits: its pieces are those of each submit, and an iteration that was made before is
// quick.
TEST(Progress, ListensToLoops) {
  Heard heard;
  const Device device = heard.device();
  Executable exe = compile(parse_graph(kWhile), device);
  heard.reports.clear();
  const auto run = [&] {
    return exe.run({{"x", Tensor::of<float>({3}, {0, 1, 2})}, {"limit", Tensor::full(DType::f32, {}, 17)}})
        .at("y")
        .to_vector<float>();
  };
  EXPECT_EQ(run(), (std::vector<float>{5, 6, 7}));
  EXPECT_FALSE(heard.reports.empty());
  heard.reports.clear();
  EXPECT_EQ(run(), (std::vector<float>{5, 6, 7}));
  EXPECT_TRUE(heard.reports.empty());
}

}  // namespace
}  // namespace rlx::testing
