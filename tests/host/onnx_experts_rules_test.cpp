// What the ONNX rules make of com.microsoft's layers of experts, MoE and QMoE.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/reference.h"
#include "tests/support/message.h"
#include "tests/support/one_node.h"

namespace rlx::testing {
namespace {

using Attributes = OnnxGraph::Attributes;

// Three experts of tokens of 4 numbers, 6 wide.
OneNode experts(const Attributes& attributes = {}, const Dims& x = {5, 4}, const Dims& router = {5, 3},
                int columns = 6, int rows = 6) {
  return OneNode::microsoft("MoE", attributes)
      .input(x)
      .input(router)
      .constant(waves({3, columns, 4}, 0))
      .absent()
      .constant(waves({3, 4, rows}, 1));
}

Attributes with(Attributes some, const Attributes& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

// The same with codes of some bits, which lie along rows of 16 and 32.
OneNode packed(const Attributes& attributes = {}, int bits = 4, const Ints& scale = {3, 32}) {
  return OneNode::microsoft("QMoE", attributes)
      .input({5, 16})
      .input({5, 3})
      .constant(counting({3, 32, 2 * bits}, DType::u8))
      .constant(waves(scale, 2))
      .absent()
      .constant(counting({3, 16, 4 * bits}, DType::u8))
      .constant(waves({3, 16}, 3));
}

TEST(OnnxExperts, KeepTheShapeOfTheirInput) {
  EXPECT_EQ(output_shape(experts({{"k", 2}}).load()).text(), "[5, 4]");
  EXPECT_EQ(output_shape(experts({}, {1, "n", 4}, {"n", 3}).load()).text(), "[1, n, 4]");
}

// One expert of one number, worked out by hand: x = 3, weights 2 and 5.
double made_by(const Attributes& attributes) {
  return OneNode::microsoft("MoE", attributes)
      .value(floats({1, 1}, {3}))
      .value(floats({1, 1}, {0.5f}))
      .constant(floats({1, 1, 1}, {2}))
      .constant(floats({1, 1}, {-7}))
      .constant(floats({1, 1, 1}, {5}))
      .constant(floats({1, 1}, {1}))
      .y()
      .real[0];
}

TEST(OnnxExperts, HaveAnActivation) {
  EXPECT_EQ(made_by({}), 1) << "relu";
  EXPECT_EQ(made_by({{"activation_type", "identity"}}), -4);
  EXPECT_NEAR(made_by({{"activation_type", "silu"}}), 1 - 5 / (1 + std::exp(1.0)), 1e-12);
  EXPECT_NEAR(made_by({{"activation_type", "gelu"}}),
              1 - 2.5 * (1 + std::tanh(-std::sqrt(2 / std::numbers::pi) * 1.044715)), 1e-12);
}

// Nothing decodes the weights of experts apart from the products.
TEST(OnnxExperts, StayPacked) {
  const std::vector<std::string> ops = optimized(packed({{"k", 2}}).load());
  EXPECT_EQ(std::ranges::count(ops, "dequant_grouped_matmul"), 2);
  EXPECT_EQ(std::ranges::count(ops, "dequantize"), 0);
}

TEST(OnnxExperts, RefuseWhatTheyCannotDo) {
  EXPECT_SAYS(experts({{"use_sparse_mixer", 1}, {"k", 2}}).load(), "use_sparse_mixer=1 is not supported");
  EXPECT_SAYS(experts({{"activation_type", "tanh"}}).load(), "activation_type='tanh' is not supported");
  EXPECT_SAYS(experts().absent().constant(waves({3, 6, 4}, 2)).load(),
              "fc3_experts_weights with activation_type='relu' is not supported");
  EXPECT_SAYS(packed({{"quant_type", "fp4"}}).load(), "quant_type='fp4' is not supported, only 'int'");
  EXPECT_SAYS(packed({{"expert_weight_bits", 3}}).load(),
              "expert_weight_bits=3 is not supported, only 2, 4 and 8");
  EXPECT_SAYS(packed({{"weights_prepacked", 1}}).load(), "weights_prepacked=1 is not supported");
  OneNode scaled = packed();
  for (int i = 0; i < 8; ++i) scaled.absent();
  EXPECT_SAYS(scaled.constant(waves({3}, 0)).load(), "input 15 is not supported for quant_type='int'");
}

TEST(OnnxExperts, CheckTheirRoutes) {
  EXPECT_SAYS(experts({}, {4}).load(), "its input [4] must be [tokens, hidden] or [batch, sequence, hidden]");
  EXPECT_SAYS(experts({}, {2, 3, 4}).load(), "its router_probs [5, 3] must be [6, experts]");
  EXPECT_SAYS(experts({}, {"b", 3, 4}, {"r", 3}).load(), "its router_probs [r, 3] must be [3*b, experts]");
  EXPECT_SAYS(experts({{"k", 4}}).load(), "it takes 4 experts for each token, and there are 3");
  EXPECT_SAYS(experts({{"k", 0}}).load(), "it takes 0 experts for each token, and there are 3");
}

TEST(OnnxExperts, CheckTheirWeights) {
  EXPECT_SAYS(experts({}, {5, 4}, {5, 2}).load(), "its fc1_experts_weights [3, 6, 4] must be [2, 6, 4]");
  EXPECT_SAYS(experts({}, {5, 4}, {5, 3}, 6, 7).load(),
              "its fc2_experts_weights [3, 4, 7] must be [3, 4, 6]");
  EXPECT_SAYS(experts().constant(waves({3, 5}, 0)).load(), "its fc2_experts_bias [3, 5] must be [3, 4]");
  const Attributes swiglu = {{"activation_type", "swiglu"}};
  EXPECT_SAYS(experts(swiglu).load(), "swiglu needs fc3_experts_weights, or swiglu_fusion=1 or 2");
  EXPECT_SAYS(experts(with(swiglu, {{"swiglu_fusion", 3}})).load(),
              "its swiglu_fusion is 3; it must be 0, 1 or 2");
  EXPECT_SAYS(experts(with(swiglu, {{"swiglu_fusion", 1}}), {5, 4}, {5, 3}, 7).load(),
              "its fc1_experts_weights [3, 7, 4] must be [experts, 2 inner, hidden]");
  EXPECT_SAYS(
      experts(with(swiglu, {{"swiglu_fusion", 1}, {"swiglu_limit", -1.0}}), {5, 4}, {5, 3}, 6, 3).load(),
      "its swiglu_limit is -1");
  EXPECT_SAYS(experts(with(swiglu, {{"swiglu_fusion", 2}})).absent().constant(waves({3, 6, 4}, 2)).load(),
              "it has fc3_experts_weights, and swiglu_fusion=2");
}

TEST(OnnxExperts, CheckTheirCodes) {
  EXPECT_SAYS(packed({{"expert_weight_bits", 8}}).load(),
              "its fc1_experts_weights [3, 32, 8] must be [3, 32, 16]");
  EXPECT_SAYS(packed({{"block_size", 16}}).load(), "its fc1_scales [3, 32] must be [3, 32, 1]");
  EXPECT_SAYS(packed({{"block_size", 8}}, 4, {3, 32, 3}).load(),
              "its fc1_scales [3, 32, 3] must be [3, 32, 2]");
  EXPECT_SAYS(packed().absent().absent().absent().absent().constant(counting({3, 32}, DType::u8)).load(),
              "its fc1_zero_points [3, 32] must be [3, 16]");
  const auto weighted = [] {
    OneNode node = packed();
    for (int i = 0; i < 7; ++i) node.absent();
    return node;
  };
  EXPECT_SAYS(weighted().input({5, 4}).load(), "its router_weights [5, 4] must be [5, 3]");
  EXPECT_EQ(output_shape(weighted().input({5, 3}).load()).text(), "[5, 16]");
}

}  // namespace
}  // namespace rlx::testing
