// Scans on the device: what their samples cannot express.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/reductions.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

using Scan = Value (*)(Value, int64_t, bool, bool);

Tensor run(const Device& device, Scan scan, const Tensor& x, int64_t axis, bool exclusive = false,
           bool reverse = false, const CompileOptions& options = {}) {
  Graph g;
  g.output("y", scan(g.input("x", x.dtype(), Shape(x.shape())), axis, exclusive, reverse));
  return compile(g, device, options).run({{"x", x}}).at("y");
}

TEST(Cumulative, KeepsNanAndInfinities) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::of<float>({9}, {1, -inf, 3, inf, 2, nan, 5, -inf, 6});
  for (const char* kernel : {"serial", "workgroup", "subgroup", "split"}) {
    SCOPED_TRACE(kernel);
    const auto check = [&](Scan scan, const char* name, const std::vector<float>& want, bool reverse) {
      const Tensor got = run(full_device(), scan, x, 0, false, reverse, {.kernels = {{name, kernel}}});
      for (int64_t i = 0; i < 9; ++i) {
        const float w = want[static_cast<size_t>(i)];
        EXPECT_TRUE(std::isnan(w) ? std::isnan(got.real(i)) : got.real(i) == w) << name << " at " << i;
      }
    };
    check(cumsum, "cumsum", {1, -inf, -inf, nan, nan, nan, nan, nan, nan}, false);
    check(cummax, "cummax", {1, 1, 3, inf, inf, nan, nan, nan, nan}, false);
    check(cummin, "cummin", {nan, nan, nan, nan, nan, nan, -inf, -inf, 6}, true);
  }
}

TEST(Cumulative, BeginsAnExclusiveScanWithTheIdentity) {
  const Tensor x = Tensor::of<int32_t>({3}, {4, 2, 8});
  EXPECT_EQ(run(full_device(), cumsum, x, 0, true).integers(), (std::vector<int64_t>{0, 4, 6}));
  EXPECT_EQ(run(full_device(), cumprod, x, 0, true, true).integers(), (std::vector<int64_t>{16, 8, 1}));
  EXPECT_EQ(run(full_device(), cummax, x, 0, true).integers(), (std::vector<int64_t>{INT32_MIN, 4, 4}));
  EXPECT_EQ(run(full_device(), cummin, x, 0, true).integers(), (std::vector<int64_t>{INT32_MAX, 4, 2}));
}

// One row in many parts, whose totals are scanned in turn, and one that is bound piece by piece.
TEST(Cumulative, IsExactOverManyParts) {
  std::vector<int32_t> values(3000001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i % 7) - 2;
  const Tensor x = Tensor::of<int32_t>({3000001}, values);
  for (const Device* device : {&full_device(), &small_device()}) {
    const Tensor got = run(*device, cumsum, x, 0);
    int64_t sum = 0;
    for (int64_t i = 0; i < 3000001; ++i) {
      sum += values[static_cast<size_t>(i)];
      ASSERT_EQ(got.integer(i), sum) << i;
    }
  }
}

}  // namespace
}  // namespace rlx::testing
