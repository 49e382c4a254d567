// State space layers and linear attention on the device: against PyTorch, by every kernel, under small
// limits, and token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "base/format.h"
#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/state_space.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/fixture_cases.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The kernel of this name for all ops that have it.
std::map<std::string, std::string, std::less<>> forced(const std::string& kernel) {
  std::map<std::string, std::string, std::less<>> all;
  for (const char* op : {"selective_steps", "gated_linear_attention", "gated_delta_net", "rwkv6"}) {
    if (std::ranges::contains(op_table().at(op).variants, kernel)) all.emplace(op, kernel);
  }
  return all;
}

// What tests/fixtures/make_state_space.py made.
std::vector<FixtureCase> fixtures() { return fixture_cases("state_space"); }

TEST(StateSpaceReference, IsPyTorchs) {
  EXPECT_EQ(fixtures().size(), 15u);
  for (const FixtureCase& c : fixtures()) {
    SCOPED_TRACE(c.name);
    const auto got = run_reference(c.graph, c.inputs);
    for (size_t i = 0; i < c.results.size(); ++i) {
      const Tensor result = got.at(formatted("y{}", i)).to_tensor();
      EXPECT_TRUE(close(result, RefTensor::from(c.results[i]), {.ulps = 8, .scale = 1})) << "output " << i;
    }
  }
}

void expect_fixtures(const Device& device, const std::string& kernel) {
  for (const FixtureCase& c : fixtures()) {
    SCOPED_TRACE(c.name + " " + kernel);
    Executable exe = compile(c.graph, device, {.kernels = forced(kernel)});
    const NamedTensors got = exe.run(c.inputs);
    for (size_t i = 0; i < c.results.size(); ++i) {
      EXPECT_TRUE(close(got.at(formatted("y{}", i)), RefTensor::from(c.results[i]), {.ulps = 64, .scale = 8}))
          << "output " << i;
    }
  }
}

TEST(StateSpace, IsPyTorchs) { expect_fixtures(full_device(), "serial"); }
TEST(StateSpace, IsPyTorchsInChunks) { expect_fixtures(full_device(), "chunked"); }
TEST(StateSpace, IsPyTorchsByProducts) { expect_fixtures(full_device(), "products"); }

Tensor random_floats(const Shape& shape, double low, double high, uint64_t seed) {
  Graph like;
  like.param("t", DType::f32, shape);
  const Tensor t = models::random_weights(like, seed, 1).at("t");
  std::vector<double> values;
  for (int64_t i = 0; i < t.elements(); ++i)
    values.push_back(low + (high - low) * (0.5 + std::atan(t.real(i)) / std::numbers::pi));
  return Tensor::from_doubles(DType::f32, shape.values(), values);
}

// A layer of each kind, of the same inputs. The states are inputs and outputs.
struct Layers {
  Graph graph;
  NamedTensors inputs;                           // of all steps
  std::map<std::string, std::string> states_to;  // from an output to the input of the next run

  explicit Layers(const Dim& steps) {
    const auto input = [&](const char* name, const Shape& shape) {
      return graph.input(name, DType::f32, shape);
    };
    const Value x = input("x", {2, steps, 12});
    const Value delta = input("delta", {2, steps, 12});
    const Value k = input("k", {2, steps, 1, 8});
    const Value v = input("v", {2, steps, 3, 4});
    const Value decay = input("decay", {2, steps, 3, 8});
    const Value beta = input("beta", {2, steps, 3});
    const auto state = [&](const std::string& name, const Shape& shape) {
      states_to.emplace("next_" + name, name);
      return input(name.c_str(), shape);
    };
    const auto keep = [&](const std::string& name, const Scanned& made) {
      graph.output(name, made.y);
      graph.output("next_state_" + name, made.state);
    };
    keep("conv", causal_conv(x, input("taps", {12, 4}),
                             {.silu = true, .initial_state = state("state_conv", {2, 3, 12})}));
    keep("scan",
         selective_scan(x, delta, input("a", {12, 8}), reshape(k, {2, steps, 8}), reshape(k, {2, steps, 8}),
                        {.z = x, .delta_softplus = true, .initial_state = state("state_scan", {2, 12, 8})}));
    keep("linear",
         gated_linear_attention(k, k, v, decay, {.initial_state = state("state_linear", {2, 3, 8, 4})}));
    keep("delta_rule",
         gated_delta_net(k, k, v, decay, beta, {.initial_state = state("state_delta_rule", {2, 3, 8, 4})}));
    const Value all_k = expand(k, {2, steps, 3, 8});
    keep("rwkv", rwkv6(all_k, all_k, v, decay, input("u", {3, 8}),
                       {.initial_state = state("state_rwkv", {2, 3, 8, 4})}));
    keep("dual",
         state_space_dual(v, beta, input("rate", {3}), k, k,
                          {.d = input("skip", {3}), .initial_state = state("state_dual", {2, 3, 8, 4})}));
  }
};

// Steps [begin, begin + count) of a tensor [2, steps, ...].
Tensor some_steps(const Tensor& t, int64_t begin, int64_t count) {
  std::vector<int64_t> dims = t.shape();
  const int64_t width = t.elements() / (dims[0] * dims[1]);
  std::vector<double> values;
  for (int64_t row = 0; row < dims[0]; ++row) {
    for (int64_t i = 0; i < count * width; ++i) values.push_back(t.real((row * dims[1] + begin) * width + i));
  }
  dims[1] = count;
  return Tensor::from_doubles(t.dtype(), dims, values);
}

TEST(StateSpace, TokensOneByOneGiveWhatAllAtOnceGives) {
  constexpr int64_t kSteps = 21;
  const Layers whole(kSteps);
  const Layers pieces("steps");
  NamedTensors given;
  uint64_t seed = 1;
  for (const TensorInfo& in : compile(whole.graph, full_device()).inputs()) {
    const bool decays = in.name == "decay" || in.name == "a" || in.name == "rate";
    const bool narrow = in.name == "k" || in.name == "beta";
    given.emplace(in.name, random_floats(in.type.shape,
                                         decays   ? -1
                                         : narrow ? 0
                                                  : -2,
                                         decays   ? 0
                                         : narrow ? 0.5
                                                  : 2,
                                         ++seed));
  }
  const NamedTensors want = compile(whole.graph, full_device()).run(given);
  Executable exe = compile(pieces.graph, full_device());
  NamedTensors next = given;
  int64_t begin = 0;
  for (const int64_t count : {1, 1, 5, 1, 13}) {
    for (const char* name : {"x", "delta", "k", "v", "decay", "beta"})
      next.insert_or_assign(name, some_steps(given.at(name), begin, count));
    const NamedTensors got = exe.run(next);
    for (const char* name : {"conv", "scan", "linear", "delta_rule", "rwkv", "dual"}) {
      SCOPED_TRACE(formatted("{}, {} steps from {} on", name, count, begin));
      EXPECT_TRUE(close(got.at(name), RefTensor::from(some_steps(want.at(name), begin, count)),
                        {.ulps = 32, .scale = 4}));
    }
    begin += count;
    for (const auto& [from, to] : pieces.states_to) next.insert_or_assign(to, got.at(from));
  }
  for (const auto& [from, to] : pieces.states_to)
    EXPECT_TRUE(close(next.at(to), RefTensor::from(want.at(from)), {.ulps = 32, .scale = 4})) << to;
}

// What is not finite stays in its channel (or column), and a decay of -inf forgets all.
TEST(StateSpace, KeepsNanAndInfinityApart) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 40, 3});
  const Value delta = g.input("delta", DType::f32, {1, 40, 3});
  const Value a = g.constant(
      Tensor::from_doubles(DType::f32, {3, 2}, std::vector<double>{-1, -kInfinity, -1, -2, -3, -1}));
  const Value b = g.constant(Tensor::full(DType::f32, {1, 40, 2}, 0.5));
  const auto scan = selective_scan(x, delta, a, b, b);
  g.output("scan", scan.y);
  g.output("scan_state", scan.state);
  const Value k = g.constant(Tensor::full(DType::f32, {1, 40, 1, 5}, 0.25));
  const Value v = reshape(x, {1, 40, 1, 3});
  const Value decay = g.input("decay", DType::f32, {1, 40, 1});
  const auto linear = gated_linear_attention(k, k, v, decay);
  const auto rule = gated_delta_net(k, k, v, decay, g.constant(Tensor::full(DType::f32, {1, 40, 1}, 0.5)));
  g.output("linear", linear.y);
  g.output("linear_state", linear.state);
  g.output("rule", rule.y);
  std::vector<double> xs(120, 1.0), deltas(120, 0.25), decays(40, -0.5);
  xs[3 * 5 + 1] = NAN;         // channel 1 from step 5 on
  xs[3 * 20 + 2] = kInfinity;  // channel 2 from step 20 on
  decays[10] = -kInfinity;
  const NamedTensors inputs = {{"x", Tensor::from_doubles(DType::f32, {1, 40, 3}, xs)},
                               {"delta", Tensor::from_doubles(DType::f32, {1, 40, 3}, deltas)},
                               {"decay", Tensor::from_doubles(DType::f32, {1, 40, 1}, decays)}};
  const auto want = run_reference(g, inputs);
  for (const std::string kernel : {"serial", "chunked", "products"}) {
    SCOPED_TRACE(kernel);
    const NamedTensors got = compile(g, full_device(), {.kernels = forced(kernel)}).run(inputs);
    for (const auto& [name, value] : want)
      EXPECT_TRUE(close(got.at(name), value, {.ulps = 32, .scale = 2})) << name;
    EXPECT_TRUE(std::isfinite(got.at("scan").real(3 * 39)));
    EXPECT_TRUE(std::isnan(got.at("scan").real(3 * 39 + 1)));
    EXPECT_TRUE(std::isfinite(got.at("linear").real(3 * 19 + 2)));
    EXPECT_EQ(got.at("linear").real(3 * 20 + 2), kInfinity);
  }

  // Decays that are no decays: NaN, and more than any float.
  xs.assign(120, 1.0);
  deltas[3 * 30 + 2] = NAN;
  deltas[3 * 25] = -200;
  decays[20] = 100;
  decays[35] = NAN;
  const NamedTensors odd = {{"x", Tensor::from_doubles(DType::f32, {1, 40, 3}, xs)},
                            {"delta", Tensor::from_doubles(DType::f32, {1, 40, 3}, deltas)},
                            {"decay", Tensor::from_doubles(DType::f32, {1, 40, 1}, decays)}};
  for (const std::string kernel : {"serial", "chunked", "serial_exp2", "chunked_exp2"}) {
    SCOPED_TRACE(kernel);
    const NamedTensors got = compile(g, full_device(), {.kernels = forced(kernel)}).run(odd);
    EXPECT_TRUE(std::isfinite(got.at("scan").real(3 * 29 + 2)));
    EXPECT_TRUE(std::isnan(got.at("scan").real(3 * 30 + 2)));
    EXPECT_TRUE(std::isnan(got.at("scan_state").real(2 * 2)));
    EXPECT_FALSE(std::isfinite(got.at("scan").real(3 * 25)));
    EXPECT_GT(got.at("linear").real(3 * 21), 1e38);
    EXPECT_TRUE(std::isnan(got.at("linear").real(3 * 35)));
    EXPECT_TRUE(std::isnan(got.at("linear_state").real(0)));
  }
}

// The product of a chunk's decays is infinite where the state before it is zero.
TEST(StateSpace, AnInfinityIsNoNaNInChunks) {
  Graph g;
  const Value one = g.constant(Tensor::full(DType::f32, {1, 40, 1}, 1));
  const auto scan = selective_scan(one, g.input("delta", DType::f32, {1, 40, 1}),
                                   g.constant(Tensor::full(DType::f32, {1, 1}, -1)), one, one);
  g.output("y", scan.y);
  g.output("state", scan.state);
  std::vector<double> deltas(40, 0.1);
  deltas[3] = -200;
  for (const std::string kernel : {"serial", "chunked", "chunked_exp2"}) {
    SCOPED_TRACE(kernel);
    const NamedTensors got = compile(g, full_device(), {.kernels = forced(kernel)})
                                 .run({{"delta", Tensor::from_doubles(DType::f32, {1, 40, 1}, deltas)}});
    EXPECT_EQ(got.at("y").real(39), kInfinity);
    EXPECT_EQ(got.at("state").real(0), kInfinity);
  }
}

// More workgroups than one axis of a grid has.
TEST(StateSpace, ManyRows) {
  constexpr int64_t kRows = 70'001;
  Graph g;
  const Value x = g.input("x", DType::f32, {kRows, 1, 1});
  const Value one = g.constant(Tensor::full(DType::f32, {kRows, 1, 1}, 1));
  const auto scan = selective_scan(x, one, g.constant(Tensor::full(DType::f32, {1, 1}, -1)), x, one);
  g.output("scan", scan.y);
  const Value v = reshape(x, {1, 1, kRows, 1});
  g.output("linear", gated_linear_attention(v, v, v).state);
  std::vector<double> values;
  for (int64_t i = 0; i < kRows; ++i) values.push_back(static_cast<double>(i % 1001) / 500 - 1);
  const NamedTensors inputs = {{"x", Tensor::from_doubles(DType::f32, {kRows, 1, 1}, values)}};
  const NamedTensors got = compile(g, full_device()).run(inputs);
  const auto want = run_reference(g, inputs);
  for (const auto& [name, value] : want) EXPECT_TRUE(close(got.at(name), value, {.ulps = 8})) << name;
}

// A head with more keys than workgroup memory holds.
TEST(StateSpace, ManyKeys) {
  constexpr int64_t kKeys = 4096;
  Graph g;
  const Value k = g.input("k", DType::f32, {1, 3, 1, kKeys});
  const Value v = g.input("v", DType::f32, {1, 3, 1, 2});
  const Value beta = g.constant(Tensor::full(DType::f32, {1, 3, 1}, 0.5));
  const auto made = gated_delta_net(k, k, v, {}, beta);
  g.output("y", made.y);
  g.output("state", made.state);
  const NamedTensors inputs = {{"k", random_floats({1, 3, 1, kKeys}, -0.02, 0.02, 1)},
                               {"v", random_floats({1, 3, 1, 2}, -2, 2, 2)}};
  const NamedTensors got = compile(g, full_device()).run(inputs);
  const auto want = run_reference(g, inputs);
  for (const auto& [name, value] : want)
    EXPECT_TRUE(close(got.at(name), value, {.ulps = 32, .terms = kKeys, .scale = 0.1})) << name;
}

// A token of a layer whose state stays on the device: one dispatch for the step, and one that keeps the
// state.
TEST(StateSpace, AStepWithAStateTakesFewDispatches) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 1, 8});
  const Value state = g.state("h", DType::f32, {1, 8, 4});
  const auto made = selective_scan(x, x, g.param("a", DType::f32, {8, 4}),
                                   g.input("b", DType::f32, {1, 1, 4}), g.input("c", DType::f32, {1, 1, 4}),
                                   {.d = g.param("d", DType::f32, {8}), .initial_state = state});
  g.output("y", made.y);
  write_state(state, made.state, 0, 0);
  Executable exe = compile(g, full_device());
  exe.set_params(models::random_weights(g, 3));
  EXPECT_EQ(exe.dispatch_count(), 2);
}

TEST(StateSpace, ErrorsNameTheNumbers) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 5, 6});
  const Value b = g.input("b", DType::f32, {2, 5, 4});
  const Value a = g.param("a", DType::f32, {6, 4});
  const Value q = g.input("q", DType::f32, {2, 5, 3, 4});
  const Value v = g.input("v", DType::f32, {2, 5, 4, 4});
  EXPECT_SAYS(selective_scan(x, b, a, b, b), "selective_scan: delta is [2, 5, 4]; it must be [2, 5, 6]");
  EXPECT_SAYS(selective_scan(x, x, a, b, b, {.d = b}), "selective_scan: d is [2, 5, 4]; it must be [6]");
  EXPECT_SAYS(selective_scan(x, x, a, b, b, {.initial_state = x}),
              "selective_scan: the initial state is [2, 5, 6]; it must be [2, 6, 4]");
  EXPECT_SAYS(gated_linear_attention(q, q, v),
              "has 4 heads; their number must be a multiple of the 3 key heads");
  EXPECT_SAYS(gated_delta_net(q, q, q, x, x),
              "gated_delta_net: g is [2, 5, 6]; it must be [2, 5, 3], or [2, 5, 3, 4]");
  EXPECT_SAYS(causal_conv(x, g.param("w", DType::f32, {6, 33})), "has a width of 33; it must be 1 to 32");
}

}  // namespace
}  // namespace rlx::testing
