// What becomes of params: how much memory they take, what the load phase makes of them, and what happens when
// one changes later.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

class WeightsTest : public ::testing::Test {
 protected:
  void compile(std::string_view text, const Device& device = full_device()) {
    graph_ = parse_graph(text);
    exe_ = std::make_unique<Executable>(rlx::compile(graph_, device));
  }
  void set(const std::string& name) {
    const TensorType& type = graph_.node(graph_.find(name)).outputs[0];
    leaves_[name] = random_tensor(type.dtype, type.shape.values(), -1, 1, random_);
    exe_->set_param(name, leaves_[name]);
  }
  void set_all() {
    for (const TensorInfo& p : exe_->params()) set(p.name);
  }
  void expect_right() {
    NamedTensors inputs;
    for (const TensorInfo& in : exe_->inputs())
      inputs[in.name] = random_tensor(in.type.dtype, in.type.shape.values(), -1, 1, random_);
    const NamedTensors got = exe_->run(inputs);
    NamedTensors leaves = leaves_;
    leaves.insert(inputs.begin(), inputs.end());
    for (const auto& [name, want] : run_reference(graph_, leaves))
      EXPECT_TRUE(close(got.at(name), want, tolerance_)) << name << "\n" << exe_->plan_text();
  }
  int64_t products() const { return std::ranges::count(exe_->plan_report().run, "matmul", &StepReport::op); }
  // Derived weights and their sources are not both kept.
  void expect_bytes(int64_t weights, int64_t derived) {
    EXPECT_EQ(exe_->memory().weight_bytes, weights) << exe_->plan_text();
    EXPECT_EQ(exe_->memory().derived_bytes, derived) << exe_->plan_text();
  }

  Graph graph_;
  std::unique_ptr<Executable> exe_;
  NamedTensors leaves_;
  Tolerance tolerance_{.ulps = 16, .terms = 600, .scale = 4};
  std::mt19937 random_{7};
};

constexpr std::string_view kThreeProducts = R"(graph qkv {
  %x = input : f32[5, 64]
  %q = param : f32[64, 64]
  %k = param : f32[32, 64]
  %v = param : f32[32, 64]
  %qt = transpose(%q)
  %kt = transpose(%k)
  %vt = transpose(%v)
  %a = matmul(%x, %qt)
  %b = matmul(%x, %kt)
  %c = matmul(%x, %vt)
  output a = %a
  output b = %b
  output c = %c
})";

// They lie one after the other, so one product reads them as one weight, and nothing is copied.
TEST_F(WeightsTest, JoinedWeightsAreWhereTheyAreSet) {
  compile(kThreeProducts);
  set_all();
  expect_right();
  EXPECT_EQ(products(), 1);
  EXPECT_EQ(exe_->plan_report().load.size(), 0u);
  expect_bytes(128 * 64 * 4, 0);
  for (const char* name : {"k", "q", "v", "k"}) {
    set(name);
    expect_right();
  }
}

// Side by side in each row: each is copied to its columns, and only what has changed is copied again.
TEST_F(WeightsTest, JoinedColumnsAreCopiedOneByOne) {
  compile(R"(graph qkv {
    %x = input : f32[5, 64]
    %q = param : f32[64, 17]
    %k = param : f32[64, 3]
    %a = matmul(%x, %q)
    %b = matmul(%x, %k)
    output a = %a
    output b = %b
  })");
  set_all();
  expect_right();
  EXPECT_EQ(products(), 1);
  EXPECT_EQ(exe_->plan_report().load.size(), 2u);
  expect_bytes(0, 64 * 20 * 4);
  for (const char* name : {"k", "q", "q"}) {
    set(name);
    expect_right();
  }
}

// A param that the runs read too stays.
TEST_F(WeightsTest, AParamThatIsReadInRunsStays) {
  compile(R"(graph g {
    %x = input : f32[64]
    %w = param : f32[64]
    %e = exp(%w)
    %a = mul(%x, %e)
    %s = softmax(%a)
    %b = mul(%s, %w)
    output b = %b
  })");
  set_all();
  expect_right();
  expect_bytes(256, 256);
  set("w");
  expect_right();
}

// What needs two params keeps both: one of them may change alone.
TEST_F(WeightsTest, ParamsThatAreCombinedStay) {
  compile(R"(graph g {
    %x = input : f32[8, 64]
    %w = param : f32[64, 64]
    %scale = param : f32[64, 1]
    %m = mul(%w, %scale)
    %c = softmax(%m)
    %y = matmul(%x, %c)
    output y = %y
  })");
  set_all();
  expect_right();
  expect_bytes(64 * 64 * 4 + 64 * 4, 64 * 64 * 4);
  for (const char* name : {"scale", "w"}) {
    set(name);
    expect_right();
  }
}

// A constant that several params need does not make them depend on each other.
TEST_F(WeightsTest, ConstantsAreSharedByCones) {
  compile(R"(graph g {
    %x = input : f32[64]
    %u = param : f32[64]
    %v = param : f32[64]
    %c = constant {value=tensor f32[64] fill 2}
    %a = softmax(%u)
    %b = softmax(%v)
    %ac = mul(%a, %c)
    %bc = mul(%b, %c)
    %as = softmax(%ac)
    %bs = softmax(%bc)
    %p = mul(%x, %as)
    %y = add(%p, %bs)
    output y = %y
  })");
  set_all();
  expect_right();
  EXPECT_EQ(exe_->memory().derived_bytes, 512) << exe_->plan_text();
  set("v");
  expect_right();
}

TEST_F(WeightsTest, AParamAsAnOutput) {
  compile(R"(graph g {
    %x = input : f32[3]
    %w = param : f32[3, 4]
    %t = transpose(%w)
    %y = neg(%x)
    output w = %w
    output t = %t
    output y = %y
  })");
  set_all();
  expect_right();
  set("w");
  expect_right();
}

TEST_F(WeightsTest, ParamsThatWereNeverSetAreNamed) {
  compile(kThreeProducts);
  set("q");
  set("v");
  EXPECT_SAYS(exe_->run({{"x", Tensor::full(DType::f32, {5, 64}, 1)}}), "'k'");
}

TEST_F(WeightsTest, UnderSmallLimits) {
  for (const std::string_view weight : {"f32[700, 300]", "f16[700, 300]"}) {
    const std::string type = std::string(weight.substr(0, 3));
    if (type == "f16") tolerance_.ulps = 1 << 15;  // the weights round too
    compile("graph g { %x = input : " + type + "[5, 300] %w = param : " + std::string(weight) +
                " %u = param : " + type +
                "[3, 300] %e = exp(%w) %wt = transpose(%e) %ut = transpose(%u)"
                " %a = matmul(%x, %wt) %b = matmul(%x, %ut) output a = %a output b = %b }",
            small_device());
    set_all();
    expect_right();
    set("w");
    expect_right();
  }
}

// Weights that are rewritten, and some of them copied in another order, take the memory of two of them more
// while they are loaded, and none afterwards.
TEST(WeightMemory, IsThatOfTheWeights) {
  const Device device = Device::open();
  Graph g;
  Value x = g.input("x", DType::f32, {1, 512});
  for (int i = 0; i < 16; ++i) x = matmul(x, exp(g.param("w" + std::to_string(i), DType::f32, {512, 512})));
  g.output("y", x);
  Executable exe = compile(g, device);
  constexpr uint64_t kWeight = 512 * 512 * 4;
  constexpr uint64_t kSlack = 256 << 10;  // parameters and intermediates
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 16; ++i)
      exe.set_param("w" + std::to_string(i), Tensor::full(DType::f32, {512, 512}, -20));
    exe.run({{"x", Tensor::full(DType::f32, {1, 512}, 1)}});
    EXPECT_LE(device.memory().bytes, 16 * kWeight + kSlack);
    EXPECT_LE(device.memory().most_bytes, 18 * kWeight + kSlack);
  }
}

// Several plans share what is derived.
TEST(WeightMemory, DoesNotGrowWithPlans) {
  const Device device = Device::open();
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 512});
  g.output("y", matmul(x, exp(g.param("w", DType::f32, {512, 512}))));
  Executable exe = compile(g, device);
  exe.set_param("w", Tensor::full(DType::f32, {512, 512}, -20));
  uint64_t first = 0;
  for (const int64_t n : {1, 2, 3, 4}) {
    exe.run({{"x", Tensor::full(DType::f32, {n, 512}, 1)}});
    if (n == 1) first = device.memory().bytes;
  }
  EXPECT_EQ(exe.plan_count(), 4);
  EXPECT_LT(device.memory().bytes, first + (256 << 10));
}

}  // namespace
}  // namespace rlx::testing
