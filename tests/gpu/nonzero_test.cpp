// nonzero on the device: what its samples cannot express.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/run_sizes.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

// The indices that count, row by row.
std::vector<int64_t> indices(const Device& device, const Tensor& x, int64_t capacity = 0) {
  Graph g;
  const auto [indices, count] = nonzero(g.input("x", x.dtype(), Shape(x.shape())), "", capacity);
  g.output("n", count);
  g.output("y", indices, "n", 1);
  Executable exe = compile(g, device);
  return exe.run({{"x", x}}).at("y").integers();
}

TEST(NonZero, KnowsTheZerosOfFloats) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<double> values = {0, -0.0, nan, inf, -inf, 1e-6, 0, -1};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(indices(full_device(), Tensor::from_doubles(dtype, {2, 4}, values)),
              (std::vector<int64_t>{0, 0, 1, 1, 1, 2, 3, 0, 1, 3}))
        << to_string(dtype);
  }
  const std::vector<std::complex<float>> complex = {{0, 0}, {0, 1}, {-0.0F, 0}, {1, 0}, {0, nan}};
  EXPECT_EQ(indices(full_device(), Tensor::of<std::complex<float>>({5}, complex)),
            (std::vector<int64_t>{1, 3, 4}));
}

// Sizes on both sides of a block, and so many blocks that their counts are summed in blocks too.
TEST(NonZero, CountsOverAllLevels) {
  std::mt19937 random(1);
  for (const Device* device : {&full_device(), &small_device()}) {
    for (const int64_t size : {1, 2047, 2048, 2049, 65537, 4300001}) {
      std::vector<int64_t> flags(static_cast<size_t>(size), 0);
      std::vector<int64_t> want;
      for (int64_t i = 0; i < size; ++i) {
        if (i != size - 1 && random() % 5003 != 0) continue;
        flags[static_cast<size_t>(i)] = 1;
        want.push_back(i);
      }
      EXPECT_EQ(indices(*device, Tensor::from_ints(DType::u8, {size}, flags), 2000), want) << size;
    }
  }
}

TEST(NonZero, WorksUnderTinyLimits) {
  DeviceOptions options;
  options.limits.max_binding_bytes = 4096;
  options.limits.max_storage_buffers = 8;
  options.limits.max_workgroups_per_dimension = 3;
  const Device device = Device::open(options);
  std::mt19937 random(2);
  std::vector<int64_t> values(70001);
  std::vector<int64_t> want;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int64_t>(random() % 3) - 1;
    if (values[i] != 0) want.push_back(static_cast<int64_t>(i));
  }
  EXPECT_EQ(indices(device, Tensor::from_ints(DType::i64, {70001}, values)), want);
}

TEST(NonZero, LeavesOutWhatItHasNoRoomFor) {
  Graph g;
  const auto [indices, count] = nonzero(g.input("x", DType::i32, {5}), "", 2);
  g.output("y", indices);
  g.output("n", count);
  Executable exe = compile(g, full_device());
  const NamedTensors got = exe.run({{"x", Tensor::of<int32_t>({5}, {0, 4, 4, 4, 0})}});
  EXPECT_EQ(got.at("y").integers(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(got.at("n").integers(), std::vector<int64_t>{3});
}

// The indices are used on the device; what lies behind the count is zero.
TEST(NonZero, FeedsOtherOps) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 5});
  const auto [indices, count] = nonzero(greater(transpose(x), 0));
  g.output("n", count);
  g.output("columns", slice(indices, 0, 0, 1), "n", 1);
  g.output("all", sum(indices, {1}));
  Executable exe = compile(g, full_device());
  const NamedTensors got = exe.run({{"x", Tensor::of<float>({2, 5}, {1, 0, 0, 1, -1, 0, 0, 0, 2, 3})}});
  EXPECT_EQ(got.at("columns").integers(), (std::vector<int64_t>{0, 3, 3, 4}));
  EXPECT_EQ(got.at("all").integers(), (std::vector<int64_t>{10, 2}));
}

}  // namespace
}  // namespace rlx::testing
