// A decoder with a growing cache: what a step with a new length costs to prepare.
#include <gtest/gtest.h>

#include "rlx/compile.h"
#include "rlx/diagnostics.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/ops/elementwise.h"
#include "tests/support/allocations.h"
#include "tests/support/counters.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

constexpr models::DecoderConfig kSmall{
    .layers = 2, .hidden = 16, .heads = 2, .kv_heads = 1, .intermediate = 24, .vocab = 11, .capacity = 20};

class Decode : public ::testing::Test {
 protected:
  explicit Decode(const models::DecoderConfig& config = kSmall)
      : graph_(models::decoder_step(config)),
        exe_(compile(graph_, full_device())),
        weights_(models::random_weights(graph_, 1, 0.3)),
        logits_(static_cast<size_t>(config.vocab)) {
    exe_.set_params(weights_);
  }
  void step(int64_t length) {
    const int64_t id[] = {length % 7};
    exe_.run({input_from("input_ids", std::span(id))}, {output_to("logits", logits_)}, {{"length", length}});
  }

  Graph graph_;
  Executable exe_;
  NamedTensors weights_;
  std::vector<float> logits_;
};

// One plan serves every length, and its steps are those of a graph that was compiled for that length.
TEST_F(Decode, EveryLengthIsRight) {
  for (int64_t length = 1; length <= kSmall.capacity; ++length) {
    Executable fixed = compile(graph_, full_device(), {.symbols = {{"length", length}}});
    fixed.set_params(weights_);
    for (const TensorInfo& s : exe_.states()) fixed.write_state(s.name, exe_.read_state(s.name));
    step(length);
    const Tensor want = fixed.run({{"input_ids", Tensor::of<int64_t>({1, 1}, {length % 7})}}).at("logits");
    for (size_t i = 0; i < logits_.size(); ++i)
      EXPECT_NEAR(logits_[i], want.real(static_cast<int64_t>(i)), 1e-5) << "length " << length;
  }
  EXPECT_EQ(exe_.plan_count(), 1);
  EXPECT_EQ(exe_.plan_report({{"length", 3}}).reason, "");
}

TEST_F(Decode, StepsGiveTheReference) {
  for (const Device* device : {&full_device(), &small_device()}) {
    Executable exe = compile(graph_, *device);
    exe.set_params(weights_);
    for (int64_t length = 1; length <= 6; ++length) {
      NamedTensors leaves = weights_;
      for (const TensorInfo& s : exe.states()) leaves[s.name] = exe.read_state(s.name);
      const NamedTensors inputs = {{"input_ids", Tensor::of<int64_t>({1, 1}, {length % 7})}};
      leaves.insert(inputs.begin(), inputs.end());
      const NamedTensors got = exe.run(inputs, {{"length", length}});
      for (const OutputCheck& c : verify_outputs(bind_symbols(graph_, {{"length", length}}), leaves, got))
        EXPECT_EQ(c.wrong, 0) << "length " << length << ": " << to_text(c);
    }
  }
}

// Norm; q, k and v; their rotation and both caches; attention and its product; norm, gate, up and down.
TEST(Decoder, NineDispatchesALayer) {
  const auto dispatches = [](int64_t layers) {
    const Executable exe = compile(models::decoder_step({.layers = layers}), full_device());
    return std::ssize(exe.plan_report({{"length", 5}}).run);
  };
  EXPECT_EQ(dispatches(3) - dispatches(2), 9);
}

// A rotation with its writes, and attention, in each layer, and none of the products.
TEST_F(Decode, OnlyWhatDependsOnTheLengthIsLoweredAgain) {
  step(1);
  step(2);
  const int64_t before = relowered_count(exe_);
  step(3);
  EXPECT_LE(relowered_count(exe_) - before, 2 * kSmall.layers);
  step(3);
  EXPECT_LE(relowered_count(exe_) - before, 2 * kSmall.layers);
}

// Nodes are inferred, lowered and bound again in memory that they had before.
TEST_F(Decode, ANewLengthAllocatesNothing) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer allocates";
  for (int64_t length = 1; length <= 5; ++length) step(length);
  const int64_t lowered = relowered_count(exe_);
  const AllocationCounter counter;
  for (int64_t length = 6; length <= kSmall.capacity; ++length) step(length);
  EXPECT_EQ(counter.count(), 0);
  EXPECT_GT(relowered_count(exe_), lowered);
}

}  // namespace
}  // namespace rlx::testing
