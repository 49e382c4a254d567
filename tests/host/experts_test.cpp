// Layers of experts: what is refused before it could leave out a token in silence.
#include <gtest/gtest.h>

#include "rlx/graph.h"
#include "rlx/ops/transformer.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

struct Layer {
  Shape gate = {4, 8, 6}, up = {4, 8, 6}, down = {4, 6, 8};
  std::string activation = "silu";

  Shape shape() const {
    Graph g;
    const Value x = g.input("x", DType::f32, {5, 8});
    const Value weights = g.input("weights", DType::f32, {5, 2});
    const Value experts = g.input("experts", DType::i64, {5, 2});
    return moe_ffn(x, weights, experts,
                   {.gate = g.input("gate", DType::f32, gate),
                    .up = g.input("up", DType::f32, up),
                    .down = g.input("down", DType::f32, down)},
                   activation)
        .shape();
  }
};

TEST(Experts, WeightsThatDoNotFitAreRefused) {
  EXPECT_EQ(Layer{}.shape().text(), "[5, 8]");
  EXPECT_SAYS((Layer{.down = {3, 6, 8}}.shape()),
              "moe_ffn: `down` is [3, 6, 8]; with `up` [4, 8, 6] it must be [4, 6, 8]");
  EXPECT_SAYS((Layer{.gate = {4, 8, 7}}.shape()), "moe_ffn: `gate` is [4, 8, 7], but `up` is [4, 8, 6]");
  EXPECT_SAYS((Layer{.up = {4, 9, 6}}.shape()),
              "moe_ffn: `up` is [4, 9, 6]; for x [5, 8] it must be [experts, 8, hidden]");
  EXPECT_SAYS((Layer{.activation = "swishy"}.shape()), "moe_ffn: the activation 'swishy' is no element-wise");
  EXPECT_SAYS((Layer{.activation = "add"}.shape()), "moe_ffn: the activation 'add' is no element-wise");
}

TEST(Experts, NoTokenHasMoreExpertsThanThereAre) {
  Graph g;
  const Value logits = g.input("logits", DType::f32, {3, 8});
  EXPECT_EQ(moe_route(logits, {.experts_per_token = 8}).experts.shape().text(), "[3, 8]");
  EXPECT_SAYS(moe_route(logits, {.experts_per_token = 9}),
              "moe_route: experts_per_token is 9, and the logits [3, 8] are of 8 experts");
}

}  // namespace
}  // namespace rlx::testing
