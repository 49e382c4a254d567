// BERT as PyTorch computes it, from a file that PyTorch wrote (tests/fixtures/make_bert_tiny.py).
#include <gtest/gtest.h>

#include <cmath>

#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/diagnostics.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/safetensors.h"
#include "tests/support/compare.h"
#include "tests/support/counters.h"
#include "tests/support/devices.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

models::BertConfig tiny_config() {
  return {.layers = 2,
          .hidden = 32,
          .heads = 4,
          .intermediate = 70,
          .vocab = 99,
          .max_positions = 24,
          .pooler = true};
}

struct Fixture {
  NamedTensors weights, inputs, expected;
};

Fixture read_fixture() {
  Fixture out;
  for (auto& [name, tensor] :
       SafetensorsFile::open(in_source("tests/fixtures/bert_tiny.safetensors")).all()) {
    if (name.starts_with("input.")) {
      out.inputs[name.substr(6)] = tensor;
    } else if (name.starts_with("expected.")) {
      out.expected[name.substr(9)] = tensor;
    } else {
      out.weights[name] = tensor;
    }
  }
  return out;
}

// In a layer: sums of 32 products three times in a row and of 70 once (4*sqrt(k) each), 32 units in the last
// place for exp, erf, the divisions and roots; the norms keep values and errors at a few units. At worst the
// layers add up.
Tolerance bert_tolerance(const Tensor& expected) {
  const double layer = 4 * (3 * std::sqrt(32.0) + std::sqrt(70.0)) + 32;
  return {.ulps = 2 * layer, .terms = 0, .scale = largest_size(expected.doubles())};
}

void expect_pytorch_outputs(Executable& exe, const Fixture& fixture) {
  for (const auto& [name, value] : fixture.weights) exe.set_param(name, value);
  const NamedTensors got = exe.run(fixture.inputs);
  for (const auto& [name, want] : fixture.expected) {
    EXPECT_TRUE(close(got.at(name), RefTensor::from(want), bert_tolerance(want))) << name;
  }
}

TEST(Bert, MatchesPyTorch) {
  const Fixture fixture = read_fixture();
  const Graph graph = models::bert_encoder(tiny_config(), 2, 17);
  Executable exe = compile(graph, full_device());
  expect_pytorch_outputs(exe, fixture);
  NamedTensors leaves = fixture.weights;
  leaves.insert(fixture.inputs.begin(), fixture.inputs.end());
  for (const OutputCheck& c : verify_outputs(graph, leaves, exe.run(fixture.inputs)))
    EXPECT_EQ(c.wrong, 0) << to_text(c);
}

TEST(Bert, MatchesPyTorchWithSymbolicSizes) {
  const Fixture fixture = read_fixture();
  Executable exe = compile(models::bert_encoder(tiny_config()), full_device());
  expect_pytorch_outputs(exe, fixture);
}

TEST(Bert, MatchesPyTorchUnoptimized) {
  const Fixture fixture = read_fixture();
  Executable exe = compile(models::bert_encoder(tiny_config(), 2, 17), full_device(), {.optimize = false});
  expect_pytorch_outputs(exe, fixture);
}

TEST(Bert, MatchesPyTorchUnderSmallLimits) {
  const Fixture fixture = read_fixture();
  Executable exe = compile(models::bert_encoder(tiny_config(), 2, 17), small_device());
  expect_pytorch_outputs(exe, fixture);
}

TEST(Bert, TheReferenceMatchesPyTorch) {
  const Fixture fixture = read_fixture();
  NamedTensors leaves = fixture.weights;
  leaves.insert(fixture.inputs.begin(), fixture.inputs.end());
  const auto got = run_reference(models::bert_encoder(tiny_config(), 2, 17), leaves);
  for (const auto& [name, want] : fixture.expected) {
    // Both are double, so all that remains is one rounding to what the file stores.
    EXPECT_TRUE(close(got.at(name).to_tensor(), RefTensor::from(want), {.ulps = 4, .terms = 0, .scale = 1}))
        << name;
  }
}

TEST(Bert, ALayerTakesAtMostSevenDispatchesAndARunOneSubmit) {
  const auto compile_layers = [&](int64_t layers) {
    models::BertConfig config = tiny_config();
    config.layers = layers;
    config.pooler = false;
    const Graph graph = models::bert_encoder(config, 1, 16);
    Executable exe = compile(graph, full_device());
    for (const auto& [name, value] : models::random_weights(graph, 1)) exe.set_param(name, value);
    return exe;
  };
  Executable one = compile_layers(1);
  Executable three = compile_layers(3);
  EXPECT_LE(three.dispatch_count() - one.dispatch_count(), 2 * 7) << three.plan_text();

  const Tensor ids = Tensor::full(DType::i64, {1, 16}, 1);
  const NamedTensors inputs = {{"input_ids", ids}, {"token_type_ids", ids}, {"attention_mask", ids}};
  one.run(inputs);  // including the load phase
  const int64_t before = submit_count(one);
  one.run(inputs);
  EXPECT_EQ(submit_count(one) - before, 1);
}

TEST(Bert, WrongConfigurationsAreSentences) {
  EXPECT_THROW(models::bert_encoder({.hidden = 30, .heads = 4}), Error);
  EXPECT_THROW(models::bert_encoder({.heads = 0}), Error);
  EXPECT_THROW(models::bert_encoder({.max_positions = 8}, 1, 9), Error);
  EXPECT_THROW(models::bert_encoder({.activation = "no_such_function"}), Error);
}

TEST(RandomWeights, AreTheSameForASeedAndCentred) {
  Graph g;
  g.output("y", g.param("w", DType::f32, {100, 100}));
  const Tensor w = models::random_weights(g, 5).at("w");
  EXPECT_EQ(w, models::random_weights(g, 5).at("w"));
  EXPECT_FALSE(w == models::random_weights(g, 6).at("w"));
  double sum = 0;
  double squares = 0;
  for (double x : w.doubles()) sum += x, squares += x * x;
  EXPECT_NEAR(sum / 1e4, 0, 4 * 0.02 / 100);  // four deviations of the mean
  EXPECT_NEAR(std::sqrt(squares / 1e4), 0.02, 0.001);
}

}  // namespace
}  // namespace rlx::testing
