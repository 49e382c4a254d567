// Scatters on the device: what their samples cannot express.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

Tensor scattered(const Device& device, const Tensor& x, const Tensor& indices, const Tensor& updates,
                 ScatterReduction reduction) {
  Graph g;
  const Value to = g.input("x", x.dtype(), Shape(x.shape()));
  const Value at = g.input("i", indices.dtype(), Shape(indices.shape()));
  const Value from = g.input("u", updates.dtype(), Shape(updates.shape()));
  g.output("y", scatter_elements(to, at, from, 0, reduction));
  return compile(g, device).run({{"x", x}, {"i", indices}, {"u", updates}}).at("y");
}

TEST(Scatter, LetsTheLastUpdateWin) {
  std::vector<int32_t> indices(100000);
  std::vector<float> updates(indices.size());
  std::vector<float> want(1000, -1);
  std::mt19937 random(3);
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int32_t>(random() % 999);
    updates[i] = static_cast<float>(i);
    want[static_cast<size_t>(indices[i])] = updates[i];
  }
  const Tensor got =
      scattered(full_device(), Tensor::full(DType::f32, {1000}, -1), Tensor::of<int32_t>({100000}, indices),
                Tensor::of<float>({100000}, updates), ScatterReduction::none);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(got.real(i), want[static_cast<size_t>(i)]) << i;
}

// All updates go to one element, or to few: sums of floats have the same bits in every run.
TEST(Scatter, AddsFloatsInOneOrder) {
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> updates(100003);
  for (float& u : updates) u = uniform(random);
  for (const uint32_t targets : {1U, 3U}) {
    std::vector<int32_t> indices(updates.size());
    std::vector<double> want(targets, 0.5);
    for (size_t i = 0; i < indices.size(); ++i) {
      indices[i] = static_cast<int32_t>(random() % targets);
      want[static_cast<size_t>(indices[i])] += updates[i];
    }
    const auto run = [&](const Device& device) {
      return scattered(device, Tensor::full(DType::f32, {targets}, 0.5),
                       Tensor::of<int32_t>({100003}, indices), Tensor::of<float>({100003}, updates),
                       ScatterReduction::add);
    };
    const Tensor first = run(full_device());
    for (int64_t i = 0; i < targets; ++i) EXPECT_NEAR(first.real(i), want[static_cast<size_t>(i)], 1e-2);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(run(full_device()), first);
    const Tensor small = run(small_device());
    for (int64_t i = 0; i < targets; ++i) EXPECT_NEAR(small.real(i), want[static_cast<size_t>(i)], 1e-2);
  }
}

TEST(Scatter, KeepsNanAndInfinities) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::of<float>({5}, {1, nan, -inf, 4, 5});
  const Tensor at = Tensor::of<int32_t>({6}, {0, 1, 2, 3, 4, 4});
  const Tensor updates = Tensor::of<float>({6}, {inf, 9, -3, nan, 2, -0.0F});
  const auto check = [&](ScatterReduction reduction, const std::vector<float>& want) {
    const Tensor got = scattered(full_device(), x, at, updates, reduction);
    for (int64_t i = 0; i < 5; ++i) {
      const float w = want[static_cast<size_t>(i)];
      EXPECT_TRUE(std::isnan(w) ? std::isnan(got.real(i)) : got.real(i) == w) << i << ": " << got.real(i);
    }
  };
  check(ScatterReduction::max, {inf, nan, -3, nan, 5});
  check(ScatterReduction::min, {1, nan, -inf, nan, -0.0F});
  check(ScatterReduction::add, {inf, nan, -inf, nan, 7});
  check(ScatterReduction::mul, {inf, nan, inf, nan, -0.0F});
}

}  // namespace
}  // namespace rlx::testing
