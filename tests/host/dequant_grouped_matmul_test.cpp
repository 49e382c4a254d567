// Rows times the packed matrix that an index names for each.
#include <gtest/gtest.h>

#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/quantization.h"
#include "tests/support/message.h"
#include "tests/support/one_node.h"

namespace rlx::testing {
namespace {

struct Shapes {
  Shape x = {7, 20};
  Shape codes = {3, 5, 10};
  Shape scale = {3, 5};
  Shape expert = {7};
  int64_t block = 0;
};

std::string shape(const Shapes& of, DType index = DType::i32, WeightScheme scheme = WeightScheme::uint4) {
  Graph g;
  PackedWeight w{.codes = g.input("codes", DType::u8, of.codes), .scale = g.input("s", DType::f32, of.scale)};
  w.scheme = scheme;
  w.block = of.block;
  const Value y =
      dequant_grouped_matmul(g.input("x", DType::f32, of.x), w, g.input("expert", index, of.expert));
  return g.type(y.id()).shape.text();
}

TEST(DequantGroupedMatMul, Shapes) {
  EXPECT_EQ(shape({}), "[7, 5]");
  EXPECT_EQ(shape({.x = {"n", 2, 20}, .expert = {"n", 2}}, DType::i64), "[n, 2, 5]");
  EXPECT_EQ(shape({.scale = {3, 5, 2}, .block = 16}), "[7, 5]");
  EXPECT_EQ(shape({.x = {7, 19}}), "[7, 5]") << "the last byte is not full";
  EXPECT_EQ(shape({.scale = {3, 5, 1}, .block = INT64_MAX}), "[7, 5]");
}

TEST(DequantGroupedMatMul, RefusesInputs) {
  EXPECT_SAYS(shape({.x = {}, .expert = {}}), "x is a scalar; it must have rows of at least one axis");
  EXPECT_SAYS(shape({.x = {7, "k"}}), "the last axis of x [7, k] must be a number");
  EXPECT_SAYS(shape({.x = {7, 22}}),
              "dequant_grouped_matmul: the codes [3, 5, 10] must be [experts, columns, 11], the bytes of 22 "
              "elements of 4 bits");
  EXPECT_SAYS(
      shape({.scale = {3, 4}}),
      "scale has the shape [3, 4]; the codes [3, 5, 10] of 20 elements in blocks of 20 need [3, 5, 1]");
  EXPECT_SAYS(shape({.block = 16}), "need [3, 5, 2]");
  EXPECT_SAYS(shape({.block = -1}), "blocks of -1; a block cannot be negative");
  EXPECT_SAYS(shape({.expert = {6}}),
              "the expert indices have the shape [6]; the rows of x [7, 20] need [7]");
  EXPECT_SAYS(shape({}, DType::f32), "expert has type f32; it must have i32, u32 or i64");
  EXPECT_SAYS(shape({}, DType::i32, WeightScheme::mxfp4), "u8");
}

// Worked out from bytes and scales.
TEST(DequantGroupedMatMul, TakesTheWeightOfEachRow) {
  const Tensor x = waves({4, 6}, 0);
  const Tensor scale = waves({2, 3, 2}, 1);
  std::vector<uint8_t> bytes(18);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(37 * i + 11);
  const std::vector<int64_t> experts = {1, 0, 2, 1};
  Graph g;
  PackedWeight w{.codes = g.constant(Tensor::of<uint8_t>({2, 3, 3}, bytes)), .scale = g.constant(scale)};
  w.scheme = WeightScheme::uint4;
  w.block = 4;
  w.zero = 8;
  g.output("y", dequant_grouped_matmul(g.constant(x), w, g.constant(Tensor::of<int64_t>({4}, experts))));
  const std::vector<double> y = run_reference(g, {}).at("y").real;
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t row = i / 3, line = static_cast<size_t>(experts[row]) * 3 + i % 3;
    double want = 0;
    for (size_t k = 0; experts[row] < 2 && k < 6; ++k) {
      const int code = bytes[line * 3 + k / 2] >> (k % 2 * 4) & 15;
      want += x.real(static_cast<int64_t>(row * 6 + k)) * (code - 8) *
              scale.real(static_cast<int64_t>(line * 2 + k / 4));
    }
    EXPECT_NEAR(y[i], want, 1e-12) << i;
  }
}

}  // namespace
}  // namespace rlx::testing
