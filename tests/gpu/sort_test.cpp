// sort and topk on the device: what their samples cannot express.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/order.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

std::vector<int64_t> argsorted(const Device& device, const std::vector<float>& values, bool descending,
                               const char* kernel) {
  Graph g;
  const auto n = static_cast<int64_t>(values.size());
  g.output("y", argsort(g.input("x", DType::f32, {n}), 0, descending));
  Executable exe = compile(g, device, {.kernels = {{"sort", kernel}}});
  return exe.run({{"x", Tensor::of<float>({n}, values)}}).at("y").integers();
}

std::vector<int64_t> expected(const std::vector<float>& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto less = [](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    const float x = values[static_cast<size_t>(a)];
    const float y = values[static_cast<size_t>(b)];
    return descending ? less(y, x) : less(x, y);
  });
  return order;
}

// The inputs on which sorts fail: special values, all equal, in order, in reverse order, few different keys.
std::vector<std::vector<float>> hard_inputs(size_t n) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> special = {0, -0.0F, nan, inf, -inf, 1e-40F, -1e-40F, 3e38F, -3e38F, -nan, 1, -1};
  std::vector<std::vector<float>> out(5, std::vector<float>(n, 7));
  std::mt19937 random(1);
  for (size_t i = 0; i < n; ++i) {
    out[0][i] = special[random() % special.size()];
    out[1][i] = static_cast<float>(i);
    out[2][i] = -static_cast<float>(i);
    out[3][i] = static_cast<float>(random() % 3);
  }
  return out;
}

TEST(Sort, IsStableOnHardInputs) {
  for (const char* kernel : {"network", "radix", "radix_serial"}) {
    for (const size_t n : {12, 2048, 5003}) {
      for (const std::vector<float>& values : hard_inputs(n)) {
        for (const bool descending : {false, true}) {
          ASSERT_EQ(argsorted(full_device(), values, descending, kernel), expected(values, descending))
              << kernel << " of " << n;
        }
      }
    }
  }
}

TEST(Sort, TakesTheFirstOfEqualsIntoTheTop) {
  for (const char* kernel : {"select", "network", "chunks", "radix"}) {
    for (const size_t n : {100, 1999, 40009}) {
      for (const std::vector<float>& values : hard_inputs(n)) {
        for (const bool largest : {false, true}) {
          Graph g;
          const auto size = static_cast<int64_t>(n);
          const Ordered top = topk(g.input("x", DType::f32, {size}), 9, 0, largest);
          g.output("values", top.values);
          g.output("indices", top.indices);
          Executable exe = compile(g, full_device(), {.kernels = {{"topk", kernel}}});
          const NamedTensors got = exe.run({{"x", Tensor::of<float>({size}, values)}});
          std::vector<int64_t> want = expected(values, largest);
          want.resize(9);
          ASSERT_EQ(got.at("indices").integers(), want) << kernel << " of " << n;
          for (int64_t i = 0; i < 9; ++i) {
            const float value = values[static_cast<size_t>(want[static_cast<size_t>(i)])];
            const double found = got.at("values").real(i);
            EXPECT_TRUE(std::isnan(value) ? std::isnan(found) : found == value);
          }
        }
      }
    }
  }
}

TEST(Sort, OrdersUnsignedAndSmallIntegers) {
  Graph g;
  g.output("u", sort(g.input("u", DType::u32, {4})).values);
  g.output("i", sort(g.input("i", DType::i8, {5}), 0, true).values);
  Executable exe = compile(g, full_device());
  const NamedTensors got = exe.run({{"u", Tensor::of<uint32_t>({4}, {4294967295U, 0, 2147483648U, 1})},
                                    {"i", Tensor::of<int8_t>({5}, {-128, 127, 0, -1, 1})}});
  EXPECT_EQ(got.at("u").integers(), (std::vector<int64_t>{0, 1, 2147483648, 4294967295}));
  EXPECT_EQ(got.at("i").integers(), (std::vector<int64_t>{127, 1, 0, -1, -128}));
}

TEST(Sort, RefusesMoreThanThereAre) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3});
  EXPECT_THROW(topk(x, 4), Error);
  EXPECT_THROW(topk(x, -1), Error);
  EXPECT_THROW(sort(x, 2), Error);
}

}  // namespace
}  // namespace rlx::testing
