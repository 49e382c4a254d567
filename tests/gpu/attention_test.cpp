// Attention beyond single samples: packed inputs read in place, rows that see nothing, symbolic lengths.
#include <gtest/gtest.h>

#include <limits>

#include "rlx/ops.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

constexpr int64_t kHeads = 3;
constexpr int64_t kHead = 16;

// Queries, keys and values side by side, as one projection makes them.
Graph packed_graph(const Dim& length) {
  Graph g;
  const Value packed = g.input("qkv", DType::f32, {2, length, 3 * kHeads * kHead});
  const Value parts = reshape(packed, {2, length, 3, kHeads, kHead});
  const auto part = [&](int64_t i) {
    return transpose(reshape(slice(parts, 2, i, 1), {2, length, kHeads, kHead}), {0, 2, 1, 3});
  };
  g.output("y", attention(part(0), part(1), part(2), {.heads = kHeads, .mask = MaskKind::causal}));
  return g;
}

TEST(Attention, ReadsPackedInputsInPlace) {
  for (const Device* device : {&full_device(), &small_device()}) {
    const Graph g = packed_graph(Dim(21));
    std::mt19937 random(1);
    const NamedTensors inputs = {
        {"qkv", random_tensor(DType::f32, {2, 21, 3 * kHeads * kHead}, -2, 2, random)}};
    Executable exe = compile(g, *device);
    const NamedTensors got = exe.run(inputs);
    EXPECT_EQ(exe.dispatch_count(), 1);
    EXPECT_TRUE(close(got.at("y"), run_reference(g, inputs).at("y"), {.ulps = 32, .terms = 21, .scale = 2}));
  }
}

TEST(Attention, TakesSymbolicLengths) {
  const Graph g = packed_graph(Dim("length"));
  EXPECT_EQ(g.type(g.outputs()[0].value).shape.text(), "[2, 3, length, 16]");
  Executable exe = compile(g, full_device());
  for (int64_t length : {1, 9, 70}) {
    std::mt19937 random(2);
    const NamedTensors inputs = {
        {"qkv", random_tensor(DType::f32, {2, length, 3 * kHeads * kHead}, -2, 2, random)}};
    const auto want = run_reference(bind_symbols(g, {{"length", length}}), inputs).at("y");
    EXPECT_TRUE(close(exe.run(inputs).at("y"), want, {.ulps = 32, .terms = 70, .scale = 2})) << length;
  }
}

TEST(Attention, GivesZerosToQueriesThatSeeNothing) {
  for (const char* variant : {"online", "blocked", "plain"}) {
    Graph g;
    const Value x = g.input("x", DType::f32, {1, 1, 2, 4});
    const Value keep = g.input("keep", DType::bool_, {2, 2});
    const Value bias = g.input("bias", DType::f32, {2, 2});
    g.output("kept", attention(x, x, x, {}, keep));
    g.output("biased", attention(x, x, x, {}, bias));
    std::mt19937 random(3);
    const double none = -std::numeric_limits<double>::infinity();
    const std::vector<int64_t> kept = {0, 0, 1, 0};
    const std::vector<double> added = {none, none, 0, none};
    const NamedTensors inputs = {{"x", random_tensor(DType::f32, {1, 1, 2, 4}, -2, 2, random)},
                                 {"keep", Tensor::from_ints(DType::bool_, {2, 2}, kept)},
                                 {"bias", Tensor::from_doubles(DType::f32, {2, 2}, added)}};
    const NamedTensors got = compile(g, full_device(), {.kernels = {{"attention", variant}}}).run(inputs);
    for (const char* output : {"kept", "biased"}) {
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(got.at(output).real(i), 0) << variant;
        EXPECT_FLOAT_EQ(got.at(output).real(4 + i), inputs.at("x").real(i)) << variant;
      }
    }
  }
}

TEST(Attention, SaysWhatIsWrong) {
  Graph g;
  const Value q = g.input("q", DType::f32, {1, 4, 5, 8});
  const Value k = g.input("k", DType::f32, {1, 3, 5, 8});
  EXPECT_THROW(attention(q, k, k, {}), Error);
  EXPECT_THROW(attention(q, k, k, {.kv_heads = 3}), Error);
  EXPECT_THROW(attention(q, q, q, {.heads = 5}), Error);
  EXPECT_THROW(attention(q, q, q, {}, g.input("mask", DType::f32, {4, 4})), Error);
}

}  // namespace
}  // namespace rlx::testing
