// The generator of random numbers against the known answers of Random123, and arguments that random ops
// refuse.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/random/threefry.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/random.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

TEST(Threefry, HasTheKnownAnswers) {
  EXPECT_EQ(threefry({0, 0}, {0, 0}), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}), (Words{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry({0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}), (Words{0xc4923a9c, 0x483df7a0}));
}

// The ends of the distributions are finite, and what they should be.
TEST(Threefry, MakesFiniteNumbers) {
  EXPECT_DOUBLE_EQ(exponential_of(0), 33 * 0.69314718055994530942);
  EXPECT_NEAR(exponential_of(0xffffffff), 0x1p-33, 0x1p-60);
  EXPECT_DOUBLE_EQ(normal_of({0, 0}), std::sqrt(66 * 0.69314718055994530942));
  EXPECT_NEAR(normal_of({0xffffffff, 0x80000000}), -0x1p-16, 1e-12);
}

TEST(Random, RefusesWhatMeansNothing) {
  const auto refused = [](const std::string& call, const std::string& inputs = "") {
    return message([&] {
      parse_graph("graph g {\n%s = input : u32[2]\n%x = input : f32[3, 5]\n%i = input : i32[3, 5]\n" +
                  inputs + "%y = " + call + "\noutput y = %y\n}");
    });
  };
  EXPECT_TRUE(refused("random_bits(%x) {shape=[3]}").contains("integer"));
  EXPECT_TRUE(refused("random_bits(%i) {shape=[3]}").contains("has 15 elements"));
  EXPECT_TRUE(refused("random_bits(%s) {shape=[3, -1]}").contains("[3, -1]"));
  EXPECT_TRUE(refused("random_bits(%s) {shape=[3], stream=-1}").contains("stream is -1"));
  EXPECT_TRUE(refused("random_uniform(%s) {shape=[3], low=2, high=1}").contains("from 2 to 1"));
  EXPECT_TRUE(refused("random_normal(%s) {shape=[3], dtype=i32}").contains("i32"));
  EXPECT_TRUE(refused("bernoulli(%i, %s)").contains("float"));
  EXPECT_TRUE(refused("dropout(%x, %s) {ratio=1.5}").contains("ratio is 1.5"));
  EXPECT_TRUE(refused("randperm(%s) {n=-3}").contains("n is -3"));
  EXPECT_TRUE(refused("add_gumbel(%x, %s, %s)").contains("different shapes"));
  EXPECT_TRUE(refused("multinomial(%x, %s) {samples=-1}").contains("samples is -1"));
  EXPECT_TRUE(refused("sample(%e, %s)", "%e = input : f32[3, 0]\n").contains("no classes"));
  EXPECT_TRUE(refused("sample(%x, %s) {temperature=-1}").contains("temperature is -1"));
  EXPECT_TRUE(refused("sample(%x, %s) {top_p=1.5}").contains("top_p is 1.5"));
  EXPECT_TRUE(refused("sample(%x, %s) {min_p=-1}").contains("min_p is -1"));
  EXPECT_TRUE(refused("sample(%x, %s) {top_k=-1}").contains("top_k is -1"));
  EXPECT_TRUE(refused("sample(%x, %s) {repetition_penalty=0}").contains("penalty is 0"));
  EXPECT_TRUE(refused("sample(%x, %s, %s)").contains("must agree"));
}

// Sizes may be symbols.
TEST(Random, TakesSymbols) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"batch", "words"});
  EXPECT_EQ(sample(x, 1, {.top_k = 5, .top_p = 0.5}).shape().text(), "[batch]");
  EXPECT_EQ(multinomial(x, 4, 1).shape().text(), "[batch, 4]");
  EXPECT_EQ(dropout(x, 0.1, 1).mask.type().text(), "bool[batch, words]");
  EXPECT_EQ(randperm(g, Dim::parse("batch*2"), 1).shape().text(), "[2*batch]");
}

}  // namespace
}  // namespace rlx::testing
