// Recurrent networks on the device: against PyTorch and ONNX Runtime, by every kernel and under small limits.
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/recurrent.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/fixture_cases.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

constexpr const char* kKernels[] = {"resident", "steps", "products"};

// What tests/fixtures/make_recurrent.py made.
std::vector<FixtureCase> fixtures() { return fixture_cases("recurrent"); }

TEST(RecurrentReference, IsThatOfPyTorchAndOnnxRuntime) {
  for (const FixtureCase& c : fixtures()) {
    SCOPED_TRACE(c.name);
    const auto got = run_reference(c.graph, c.inputs);
    for (size_t i = 0; i < c.results.size(); ++i) {
      const Tensor result = got.at(formatted("y{}", i)).to_tensor();
      EXPECT_TRUE(close(result, RefTensor::from(c.results[i]), {.ulps = 64, .scale = 1})) << "output " << i;
    }
  }
}

void expect_fixtures(const Device& device, const std::string& kernel) {
  for (const FixtureCase& c : fixtures()) {
    // Compiling shaders takes most of the time, and all kernels have the same activations.
    const bool only_activations = c.inputs.size() == 4 && c.name.starts_with("ort_");
    if (only_activations && kernel != "resident") continue;
    SCOPED_TRACE(c.name + " " + kernel);
    Executable exe = compile(c.graph, device, {.kernels = {{"recurrence", kernel}}});
    const NamedTensors got = exe.run(c.inputs);
    for (size_t i = 0; i < c.results.size(); ++i) {
      EXPECT_TRUE(
          close(got.at(formatted("y{}", i)), RefTensor::from(c.results[i]), {.ulps = 128, .scale = 1}))
          << "output " << i;
    }
  }
}

TEST(Recurrent, IsPyTorchsAndOnnxRuntimes) {
  for (const char* kernel : kKernels) expect_fixtures(full_device(), kernel);
}
TEST(Recurrent, IsPyTorchsAndOnnxRuntimesUnderSmallLimits) { expect_fixtures(small_device(), "resident"); }

// More rows than a workgroup has, units that are no multiple of four, and a state that only fits in pieces.
TEST(Recurrent, KernelsAgreeOnManySizes) {
  struct Sizes {
    int64_t steps, batch, width, units;
  };
  for (const Sizes z : {Sizes{3, 9, 2, 1}, Sizes{1, 1, 3, 257}, Sizes{2, 17, 1, 66}, Sizes{4, 2, 5, 600}}) {
    for (const std::string op : {"lstm", "gru", "rnn"}) {
      const int64_t gates = op == "lstm" ? 4 : op == "gru" ? 3 : 1;
      Graph g;
      const Value x = g.input("x", DType::f32, {z.steps, z.batch, z.width});
      const Value w = g.param("w", DType::f32, {2, gates * z.units, z.width});
      const Value r = g.param("r", DType::f32, {2, gates * z.units, z.units});
      const RecurrentOptions options{
          .bias = g.param("bias", DType::f32, {2, 2 * gates * z.units}),
          .lengths = g.input("lengths", DType::i32, {z.batch}),
          // A part of what lies in memory.
          .initial_h = slice(g.input("h", DType::f32, {2, z.batch, 2 * z.units}), 2, z.units, z.units),
          .direction = RecurrentDirection::bidirectional};
      const auto keep = [&](const auto& made) {
        g.output("y", made.y);
        g.output("last", made.h);
      };
      if (op == "lstm") keep(lstm(x, w, r, options));
      if (op == "gru") keep(gru(x, w, r, options));
      if (op == "rnn") keep(rnn(x, w, r, options));
      NamedTensors leaves = models::random_weights(g, 3);
      const auto random = [&](Shape shape, uint64_t seed) {
        Graph like;
        like.param("t", DType::f32, shape);
        return models::random_weights(like, seed).at("t");
      };
      NamedTensors inputs = {{"x", random({z.steps, z.batch, z.width}, 4)},
                             {"h", random({2, z.batch, 2 * z.units}, 5)}};
      std::vector<int64_t> lengths;
      for (int64_t b = 0; b < z.batch; ++b) lengths.push_back(z.steps - b % (z.steps + 1));
      inputs.emplace("lengths", Tensor::from_ints(DType::i32, {z.batch}, lengths));
      NamedTensors all = leaves;
      all.insert(inputs.begin(), inputs.end());
      const auto want = run_reference(g, all);
      for (const char* kernel : kKernels) {
        SCOPED_TRACE(formatted("{} {} {} units {}", op, kernel, z.batch, z.units));
        Executable exe = compile(g, full_device(), {.kernels = {{"recurrence", kernel}}});
        exe.set_params(leaves);
        const NamedTensors got = exe.run(inputs);
        const Tolerance tolerance{.ulps = 64, .terms = static_cast<double>(z.units), .scale = 1};
        EXPECT_TRUE(close(got.at("y"), want.at("y"), tolerance));
        EXPECT_TRUE(close(got.at("last"), want.at("last"), tolerance));
      }
    }
  }
}

// NaN in one row stays in it, and what comes after a row's last step is never seen.
TEST(Recurrent, NanStaysInItsRowAndSteps) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 3, 2});
  const auto made = gru(x, g.param("w", DType::f32, {1, 15, 2}), g.param("r", DType::f32, {1, 15, 5}),
                        {.lengths = g.input("lengths", DType::i32, {3})});
  g.output("y", made.y);
  g.output("h", made.h);
  const NamedTensors leaves = models::random_weights(g, 3);
  std::vector<double> values(18, 0.5);
  values[2 * 6 + 0] = NAN;                                      // row 0, which has one step
  values[1 * 6 + 2] = std::numeric_limits<double>::infinity();  // row 1, from its second step on
  const NamedTensors inputs = {
      {"x", Tensor::from_doubles(DType::f32, {3, 3, 2}, values)},
      {"lengths", Tensor::from_ints(DType::i32, {3}, std::vector<int64_t>{1, 3, 2})}};
  NamedTensors all = leaves;
  all.insert(inputs.begin(), inputs.end());
  const auto want = run_reference(g, all);
  for (const char* kernel : kKernels) {
    SCOPED_TRACE(kernel);
    Executable exe = compile(g, full_device(), {.kernels = {{"recurrence", kernel}}});
    exe.set_params(leaves);
    const NamedTensors got = exe.run(inputs);
    EXPECT_TRUE(close(got.at("y"), want.at("y"), {.ulps = 64, .scale = 1}));
    EXPECT_TRUE(close(got.at("h"), want.at("h"), {.ulps = 64, .scale = 1}));
    EXPECT_TRUE(std::isfinite(got.at("h").real(0)));
  }
}

// One product, and one dispatch for all steps; nothing is rearranged in a run.
TEST(Recurrent, TakesTwoDispatches) {
  Graph g;
  const Value x = g.input("x", DType::f32, {20, 2, 16});
  const auto made = lstm(x, g.param("w", DType::f32, {1, 128, 16}), g.param("r", DType::f32, {1, 128, 32}),
                         {.bias = g.param("bias", DType::f32, {1, 256}),
                          .initial_h = slice(g.input("h", DType::f32, {1, 2, 64}), 2, 32, 32)});
  g.output("y", made.y);
  Executable exe = compile(g, full_device(), {.kernels = {{"recurrence", "resident"}}});
  exe.set_params(models::random_weights(g, 3));
  EXPECT_EQ(exe.dispatch_count(), 2);
}

TEST(Recurrent, ErrorsNameTheNumbers) {
  Graph g;
  const Value x = g.input("x", DType::f32, {4, 2, 3});
  const Value w = g.param("w", DType::f32, {1, 20, 3});
  const Value r = g.param("r", DType::f32, {1, 20, 5});
  const Value small = g.param("small", DType::f32, {1, 20, 4});
  EXPECT_SAYS(lstm(x, w, small),
              "lstm: r [1, 20, 4] has 5 units and a state of 4; these must be equal without a projection");
  EXPECT_SAYS(lstm(x, w, r, {.bias = w}), "lstm: the bias is [1, 20, 3]; it must be [1, 40]");
  EXPECT_SAYS(lstm(x, w, r, {.activations = {"tanh"}}), "lstm: it has 1 activations; it needs 3, or none");
  EXPECT_SAYS(rnn(x, g.param("v", DType::f32, {1, 20, 3}), r, {.peepholes = w}), "rnn: has no peepholes");
  EXPECT_SAYS(gru(x, w, r), "gru: r [1, 20, 5] must be [1, 3 * units, size of h]: 1 direction, 3 gates");
}

}  // namespace
}  // namespace rlx::testing
