// Every length of a symbol, by kernels that are made for classes of lengths.
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

Tensor numbers(DType dtype, std::vector<int64_t> dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 37 + i / 64) % 101) - 50;
  return Tensor::from_doubles(dtype, std::move(dims), values);
}

// Small whole numbers, so that sums are exact in any order.
void expect_all_lengths(DType dtype, const std::string& kernel, int64_t longest) {
  constexpr int64_t kDepth = 36;
  constexpr int64_t kColumns = 40;
  Graph g;
  const Value x = g.input("x", dtype, {"n", kDepth});
  g.output("y", matmul(x, g.param("w", dtype, {kDepth, kColumns})));
  const Tensor w = numbers(dtype, {kDepth, kColumns});
  Executable exe = compile(g, full_device(), {.kernels = {{"matmul", kernel}}});
  exe.set_param("w", w);
  for (int64_t length = 1; length <= longest; ++length) {
    const NamedTensors leaves = {{"x", numbers(dtype, {length, kDepth})}, {"w", w}};
    const RefTensor want = run_reference(bind_symbols(g, {{"n", length}}), leaves).at("y");
    const Tensor got = exe.run({{"x", leaves.at("x")}}).at("y");
    EXPECT_TRUE(is_float(dtype) ? got.doubles() == want.real : got.integers() == want.ints)
        << formatted("{} rows of {} by {}", length, to_string(dtype), kernel);
  }
}

TEST(Lengths, AreAllRight) {
  expect_all_lengths(DType::f32, "staged", 70);
  expect_all_lengths(DType::i8, "staged", 40);
  expect_all_lengths(DType::f32, "rows", 40);
}

}  // namespace
}  // namespace rlx::testing
