// Pools and norms of images on the device: against PyTorch, and what they become together with convolutions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/pooling.h"
#include "rlx/report.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/sample.h"
#include "tests/support/vision_cases.h"

namespace rlx::testing {
namespace {

Graph graph_of(const std::string& body) { return parse_graph("graph g {\n" + body + "\n}"); }

// --- PyTorch ---

void expect_pytorch(const Device& device) {
  for (const VisionCase& c : vision_cases()) {
    SCOPED_TRACE(c.name);
    const Node& n = c.graph.node(c.graph.find("y"));
    std::vector<TensorType> types;
    for (const ValueId v : n.inputs) types.push_back(v.is_absent() ? TensorType{} : c.graph.type(v));
    Tolerance tolerance = n.op->tolerance(types);
    tolerance.scale = std::max(tolerance.scale, 16.0);  // the values of the norms' images
    tolerance.ulps += 2;
    Executable exe = compile(c.graph, device);
    const NamedTensors got = exe.run(c.inputs);
    EXPECT_TRUE(close(got.at("y"), RefTensor::from(c.results[0]), tolerance));
    if (c.results.size() > 1) {
      EXPECT_TRUE(close(got.at("z"), RefTensor::from(c.results[1]), tolerance));
    }
  }
}

TEST(VisionOnDevice, IsPyTorchs) { expect_pytorch(full_device()); }
TEST(VisionOnDevice, IsPyTorchsUnderSmallLimits) { expect_pytorch(small_device()); }

// --- NaN and infinities ---

TEST(VisionOnDevice, PoolsKeepNanAndInfinities) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {1, NAN, 2, 3, -inf, -inf, -inf, -inf, inf, 1, -1, -2};
  const Tensor x = Tensor::from_doubles(DType::f32, {1, 1, 12}, values);
  for (const char* op : {"max_pool", "min_pool", "sum_pool", "avg_pool", "prod_pool", "lp_pool"}) {
    for (const char* more : {"", ", pads=[1,2]", ", dilations=[2]"}) {
      SCOPED_TRACE(std::string(op) + more);
      const Graph g = graph_of("%x = input : f32[1, 1, 12]\n%y = " + std::string(op) + "(%x) {kernel=[3]" +
                               more + "}\noutput y = %y");
      Executable exe = compile(g, full_device());
      const auto want = run_reference(g, {{"x", x}});
      EXPECT_TRUE(close(exe.run({{"x", x}}).at("y"), want.at("y"), {.ulps = 16}));
    }
  }
}

TEST(VisionOnDevice, NormsKeepNanToItsGroup) {
  std::vector<double> values(24, 1);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 5);
  values[3] = NAN;
  values[20] = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from_doubles(DType::f32, {1, 6, 4}, values);
  const Graph g = graph_of("%x = input : f32[1, 6, 4]\n%y = group_norm(%x) {groups=3}\noutput y = %y");
  const auto want = run_reference(g, {{"x", x}});
  for (const char* team : {"serial", "workgroup", "subgroup"}) {
    if (std::string_view(team) == "subgroup" && !full_device().caps().subgroups) continue;
    Executable exe = compile(g, full_device(), {.kernels = {{"group_norm", team}}});
    EXPECT_TRUE(close(exe.run({{"x", x}}).at("y"), want.at("y"), {.ulps = 32, .scale = 2})) << team;
  }
}

// A mean of 1e5 with a deviation of 1 costs no digits, wherever the first element lies.
TEST(VisionOnDevice, GroupNormIsAccurateFarFromZero) {
  std::mt19937 random(3);
  const Graph g = graph_of("%x = input : f32[1, 4, 33, 31]\n%y = group_norm(%x) {groups=2}\noutput y = %y");
  for (const double outlier : {0.0, 1000.0}) {
    const Tensor noise = random_tensor(DType::f32, {1, 4, 33, 31}, -2, 2, random);
    std::vector<double> values;
    for (int64_t i = 0; i < noise.elements(); ++i) values.push_back(noise.real(i) + 1e5);
    values[0] += outlier;
    const Tensor x = Tensor::from_doubles(DType::f32, {1, 4, 33, 31}, values);
    const auto want = run_reference(g, {{"x", x}});
    for (const char* team : {"serial", "workgroup"}) {
      Executable exe = compile(g, full_device(), {.kernels = {{"group_norm", team}}});
      EXPECT_TRUE(close(exe.run({{"x", x}}).at("y"), want.at("y"), {.ulps = 16, .terms = 2046, .scale = 8}))
          << team << " " << outlier;
    }
  }
}

// --- unpooling, symbolic sizes ---

TEST(VisionOnDevice, UnpoolPutsBackWhatWasPooled) {
  for (const char* kind : {"plane", "tensor"}) {
    const Graph g = graph_of(
        "%x = input : f32[2, 3, 10, 12]\n"
        "%p = max_pool(%x) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1], indices=\"" +
        std::string(kind) + "\"}\n%y = max_unpool(%p, %p:1) {size=[10,12], indices=\"" + kind + "\"}\n" +
        "%q = max_pool(%y) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}\noutput p = %p\noutput q = "
        "%q\noutput y = %y");
    std::mt19937 random(5);
    const Tensor x = random_tensor(DType::f32, {2, 3, 10, 12}, 1, 2, random);
    Executable exe = compile(g, full_device());
    const NamedTensors got = exe.run({{"x", x}});
    EXPECT_EQ(got.at("p"), got.at("q")) << kind;
    const auto want = run_reference(g, {{"x", x}});
    EXPECT_TRUE(close(got.at("y"), want.at("y"), {.ulps = 0}));
  }
}

TEST(VisionOnDevice, SizesMayDifferFromRunToRun) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 4, "h", 6});
  const Value p = max_pool(x, {3, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}, .ceil_mode = true});
  g.output("y", group_norm(avg_pool(p, {2, 2}), 2));
  g.output("a", adaptive_avg_pool(x, {3, 5}));
  g.set_capacity("h", 11);
  Executable exe = compile(g, full_device());
  std::mt19937 random(7);
  for (const auto& [n, h] : {std::pair(1, 7), {2, 11}, {1, 8}, {3, 5}, {1, 7}}) {
    const Tensor value = random_tensor(DType::f32, {n, 4, h, 6}, -2, 2, random);
    const Graph bound = bind_symbols(g, {{"n", n}, {"h", h}});
    const auto want = run_reference(bound, {{"x", value}});
    const NamedTensors got = exe.run({{"x", value}});
    EXPECT_TRUE(close(got.at("y"), want.at("y"), {.ulps = 32, .scale = 8})) << n << " " << h;
    EXPECT_TRUE(close(got.at("a"), want.at("a"), {.ulps = 16, .scale = 2})) << n << " " << h;
  }
}

// --- fusion ---

Tolerance sums_of(double terms) { return {.ulps = 32, .terms = terms, .scale = 16 * std::sqrt(terms)}; }

// The dispatches of a run; what is computed is what the reference of the graph as it was written gives.
void expect_dispatches(const Graph& g, size_t count, const Tolerance& tolerance) {
  std::mt19937 random(11);
  NamedTensors leaves, inputs;
  Executable exe = compile(g, full_device());
  for (const Node& n : g.nodes()) {
    if (!n.op->is_leaf()) continue;
    const bool variance = n.name.starts_with("v");
    leaves[n.name] =
        random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), variance ? 0.5 : -2, 2, random);
    if (n.op->is(LeafKind::param)) exe.set_param(n.name, leaves[n.name]);
    if (n.op->is(LeafKind::input)) inputs[n.name] = leaves[n.name];
  }
  std::string steps;
  const std::vector<StepReport> run_steps = exe.plan_report().run;
  for (const StepReport& s : run_steps) steps += s.node + ": " + s.kernel + "\n";
  EXPECT_EQ(run_steps.size(), count) << steps << to_text(*exe.graph());
  const auto want = run_reference(g, leaves);
  for (const auto& [name, got] : exe.run(inputs)) EXPECT_TRUE(close(got, want.at(name), tolerance)) << steps;
}

// A block of a residual network. In f16, where the norm is not folded, it is part of the epilogue.
std::string block(const std::string& t, bool bias) {
  return "%x = input : " + t + "[2, 4, 9, 7]\n%r = input : " + t + "[2, 6, 9, 7]\n%w = param : " + t +
         "[6, 4, 3, 3]\n%b = param : " + t +
         "[6]\n%m = param : f32[6]\n%v = param : f32[6]\n%g = param : f32[6]\n" +
         "%pad = pad(%x) {before=[0,0,1,1], after=[0,0,1,1]}\n%c = conv(%pad, %w" + (bias ? ", %b" : "") +
         ")\n%n = batch_norm(%c, %m, %v, %g, %m)\n%s = add(%n, %r)\n%y = relu(%s)\noutput y = %y";
}

TEST(VisionOnDevice, ResidualBlockIsOneDispatch) {
  expect_dispatches(graph_of(block("f32", false)), 1, sums_of(36));
  expect_dispatches(graph_of(block("f32", true)), 1, sums_of(36));
  expect_dispatches(graph_of(block("f16", true)), 1, {.ulps = 4 * 8192, .scale = 4});  // four roundings
  expect_dispatches(
      graph_of("%x = input : f32[1, 9, 7, 4]\n%w = param : f32[6, 4, 1, 1]\n%m = param : f32[6]\n"
               "%v = param : f32[6]\n%c = conv(%x, %w) {layout=\"channels_last\"}\n"
               "%n = batch_norm(%c, %m, %v) {axis=-1}\n%y = relu(%n)\noutput y = %y"),
      1, sums_of(4));
  expect_dispatches(graph_of("%x = input : f32[9, 4]\n%w = param : f32[4, 6]\n%m = param : f32[6]\n"
                             "%v = param : f32[6]\n%c = matmul(%x, %w)\n%n = batch_norm(%c, %m, %v)\n"
                             "%y = relu(%n)\noutput y = %y"),
                    1, sums_of(4));
}

TEST(VisionOnDevice, PadsAndGlobalPoolsCostNothingExtra) {
  expect_dispatches(
      graph_of("%x = input : f32[1, 2, 8, 9]\n%p = pad(%x) {before=[0,0,1,2], after=[0,0,1,0]}\n"
               "%y = avg_pool(%p) {kernel=[3,3], strides=[2,2]}\noutput y = %y"),
      1, sums_of(9));
  expect_dispatches(graph_of("%x = input : f32[2, 3, 7, 7]\n%y = avg_pool(%x) {kernel=[7,7]}\noutput y = %y"),
                    1, sums_of(49));
  expect_dispatches(
      graph_of("%x = input : f32[2, 7, 7, 3]\n"
               "%y = adaptive_max_pool(%x) {size=[1,1], layout=\"channels_last\"}\noutput y = %y"),
      1, sums_of(1));
}

// As a network for channels that come last is exported for a runtime that wants them first.
TEST(VisionOnDevice, ChangesOfLayoutCostNothingExtra) {
  expect_dispatches(
      graph_of("%x = input : f32[1, 9, 7, 4]\n%w = param : f32[6, 4, 3, 3]\n%u = param : f32[5, 6, 1, 1]\n"
               "%a = transpose(%x) {perm=[0, 3, 1, 2]}\n%c = conv(%a, %w) {pads=[1,1,1,1]}\n"
               "%d = transpose(%c) {perm=[0, 2, 3, 1]}\n%r = relu(%d)\n"
               "%e = transpose(%r) {perm=[0, 3, 1, 2]}\n%p = max_pool(%e) {kernel=[2,2], strides=[2,2]}\n"
               "%f = transpose(%p) {perm=[0, 2, 3, 1]}\n%g = transpose(%f) {perm=[0, 3, 1, 2]}\n"
               "%h = conv(%g, %u)\n%y = transpose(%h) {perm=[0, 2, 3, 1]}\noutput y = %y"),
      3, sums_of(36 * 6));
}

}  // namespace
}  // namespace rlx::testing
