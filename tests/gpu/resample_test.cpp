// Transposed convolutions, resized and sampled images against PyTorch (tests/fixtures/make_resample.py).
#include <gtest/gtest.h>

#include <limits>

#include "base/format.h"
#include "rlx/compile.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/resampling.h"
#include "rlx/safetensors.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

std::vector<double> ramp(int64_t n) {
  std::vector<double> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(i);
  return out;
}

struct Case {
  Graph graph;
  NamedTensors inputs;
  Tensor y;
  Tolerance tolerance;
};

Case read_case(const SafetensorsFile& file, const std::string& name, std::string call) {
  Case c;
  std::string text = "graph g {\n";
  std::vector<TensorType> types;
  for (int i = 0; const auto* entry = file.find(formatted("{}.{}", name, i)); ++i) {
    const std::string number = formatted("%{}", i);
    const std::string operand = formatted("in{}", i);
    call.replace(call.find(number), number.size(), "%" + operand);
    text += formatted("  %{} = input : f32{}\n", operand, Shape(entry->shape).text());
    c.inputs.emplace(operand, file.tensor(entry->name));
    types.push_back({DType::f32, Shape(entry->shape)});
  }
  c.graph = parse_graph(text + "  %y = " + call + "\n  output y = %y\n}\n");
  c.y = file.tensor(name + ".y");
  c.tolerance = c.graph.node(c.graph.find("y")).op->tolerance(types);
  c.tolerance.ulps += 1;  // PyTorch's result is rounded
  return c;
}

TEST(Resample, IsWhatPyTorchComputes) {
  const auto file = SafetensorsFile::open(in_source("tests/fixtures/resample.safetensors"));
  int cases = 0;
  for (const auto& [name, call] : file.metadata()) {
    if (name == "made_by") continue;
    SCOPED_TRACE(name + ": " + call);
    const Case c = read_case(file, name, call);
    const RefTensor want = RefTensor::from(c.y);
    EXPECT_TRUE(close(run_reference(c.graph, c.inputs).at("y").to_tensor(), want, c.tolerance))
        << "the reference";
    EXPECT_TRUE(close(compile(c.graph, full_device()).run(c.inputs).at("y"), want, c.tolerance));
    ++cases;
  }
  EXPECT_GT(cases, 40);
}

// Neighbours are computed together, but what is infinite must not reach those that do not take it.
TEST(Resample, AnInfinityStaysWhereItIsTaken) {
  Graph g;
  ResizeOptions options{.axes = {1, 2}, .scales = {2, 1.5}};
  const Value x = g.input("x", DType::f32, {1, 5, 8});
  g.output("linear", resize(x, options));
  options.mode = ResizeMode::cubic;
  g.output("cubic", resize(x, options));
  std::vector<double> values = ramp(40);
  values[12] = std::numeric_limits<double>::infinity();
  const NamedTensors inputs = {{"x", Tensor::from_doubles(DType::f32, {1, 5, 8}, values)}};
  for (const std::string kernel : {"axis_by_axis", "two_axes"}) {
    CompileOptions compiling;
    compiling.kernels["resize"] = kernel;
    const NamedTensors got = compile(g, full_device(), compiling).run(inputs);
    for (const auto& [name, want] : run_reference(g, inputs))
      EXPECT_TRUE(close(got.at(name), want, {.ulps = 40, .scale = 80})) << kernel << " " << name;
  }
}

// --- Functions that are made of other ops ---

std::vector<double> applied(const std::vector<int64_t>& dims, Value (*function)(Value)) {
  Graph g;
  g.output("y", function(g.input("x", DType::f32, Shape(dims))));
  const Tensor x = Tensor::from_doubles(DType::f32, dims, ramp(product(dims)));
  return compile(g, full_device()).run({{"x", x}}).at("y").doubles();
}

using Row = std::vector<double>;

TEST(Rearrange, Flips) {
  EXPECT_EQ(applied({2, 3}, [](Value x) { return flip(x, {1}); }), (Row{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(applied({2, 3}, [](Value x) { return flip(x, {0, -1}); }), (Row{5, 4, 3, 2, 1, 0}));
}

TEST(Rearrange, Rolls) {
  EXPECT_EQ(applied({5}, [](Value x) { return roll(x, {2}, {0}); }), (Row{3, 4, 0, 1, 2}));
  EXPECT_EQ(applied({5}, [](Value x) { return roll(x, {-6}, {0}); }), (Row{1, 2, 3, 4, 0}));
  EXPECT_EQ(applied({2, 3}, [](Value x) { return roll(x, {1, 1}, {0, 1}); }), (Row{5, 3, 4, 2, 0, 1}));
}

TEST(Rearrange, Tiles) {
  EXPECT_EQ(applied({2}, [](Value x) { return tile(x, {2, 2}); }), (Row{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(applied({2, 1}, [](Value x) { return tile(x, {3}); }), (Row{0, 0, 0, 1, 1, 1}));
}

TEST(Rearrange, CropsAndPadsAroundTheMiddle) {
  EXPECT_EQ(applied({5}, [](Value x) { return center_crop_pad(x, {2}); }), (Row{1, 2}));
  EXPECT_EQ(applied({3, 2}, [](Value x) { return center_crop_pad(x, {1, 5}, {0, 1}); }),
            (Row{0, 2, 3, 0, 0}));
}

// Worked out by hand: each pixel becomes a block of two by two.
TEST(Rearrange, ShufflesPixels) {
  EXPECT_EQ(applied({4, 1, 2}, [](Value x) { return pixel_shuffle(x, 2); }), (Row{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(applied({1, 4, 2, 3}, [](Value x) { return pixel_unshuffle(pixel_shuffle(x, 2), 2); }), ramp(24));
  EXPECT_EQ(applied({1, 8, 2, 3}, [](Value x) { return space_to_depth(depth_to_space(x, 2), 2); }), ramp(48));
  EXPECT_EQ(applied({1, 8, 1, 1}, [](Value x) { return depth_to_space(x, 2); }),
            (Row{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(Rearrange, ShufflesPixelsAsPyTorch) {
  const auto file = SafetensorsFile::open(in_source("tests/fixtures/vision.safetensors"));
  const auto expect_same = [&](const std::string& name, Value (*function)(Value, int64_t)) {
    const Tensor x = file.tensor(name + ".x");
    Graph g;
    g.output("y", function(g.input("x", DType::f32, Shape(x.shape())), 3));
    EXPECT_EQ(compile(g, full_device()).run({{"x", x}}).at("y"), file.tensor(name + ".0")) << name;
  };
  expect_same("pixel_shuffle", pixel_shuffle);
  expect_same("pixel_unshuffle", pixel_unshuffle);
}

}  // namespace
}  // namespace rlx::testing
