// Rows times the matrix that an index names for each.
#include <gtest/gtest.h>

#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

std::string shape(const Shape& x, const Shape& w, const Shape& expert, DType index = DType::i32) {
  Graph g;
  const Value y = grouped_matmul(g.input("x", DType::f32, x), g.input("w", DType::f32, w),
                                 g.input("expert", index, expert));
  return g.type(y.id()).shape.text();
}

TEST(GroupedMatMul, Shapes) {
  EXPECT_EQ(shape({7, 4}, {3, 4, 5}, {7}), "[7, 5]");
  EXPECT_EQ(shape({2, 7, 4}, {3, 4, 5}, {2, 7}, DType::u32), "[2, 7, 5]");
  EXPECT_EQ(shape({4}, {3, 4, 5}, {}, DType::i64), "[5]");
  EXPECT_EQ(shape({0, 4}, {3, 4, 5}, {0}), "[0, 5]");
  EXPECT_EQ(shape({Dim("n") * 2, "k"}, {"e", "k", 5}, {Dim("n") * 2}), "[2*n, 5]");
}

TEST(GroupedMatMul, RefusesInputs) {
  EXPECT_SAYS(shape({}, {3, 4, 5}, {}),
              "grouped_matmul: x is a scalar; it must have rows of at least one axis");
  EXPECT_SAYS(shape({7, 4}, {4, 5}, {7}),
              "grouped_matmul: the weight [4, 5] has rank 2; it must be [experts, k, n], of rank 3");
  EXPECT_SAYS(shape({7, 3}, {3, 4, 5}, {7}),
              "grouped_matmul: the inner sizes of [7, 3] and [3, 4, 5] differ: 3 against 4");
  EXPECT_SAYS(shape({2, 7, 4}, {3, 4, 5}, {7}),
              "grouped_matmul: the expert indices have the shape [7]; the rows of x [2, 7, 4] need [2, 7]");
  EXPECT_SAYS(shape({7, 4}, {3, 4, 5}, {7}, DType::i8),
              "grouped_matmul: expert has type i8; it must have i32, u32 or i64");
  EXPECT_SAYS(shape({7, 4}, {3, 4, 5}, {7}, DType::f32),
              "grouped_matmul: expert has type f32; it must have i32, u32 or i64");
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 2});
  const Value i = g.input("i", DType::i32, {2});
  EXPECT_SAYS(grouped_matmul(i, x, i), "grouped_matmul: x has type i32; it must have a float type");
  EXPECT_SAYS(grouped_matmul(x, g.input("w", DType::f16, {1, 2, 2}), i),
              "grouped_matmul: x and w have the types f32 and f16");
}

// Worked out by hand.
TEST(GroupedMatMul, RowsWithoutAnExpertAreZero) {
  Graph g;
  const Value x = g.input("x", DType::f32, {5, 2});
  const Value w = g.input("w", DType::f32, {2, 2, 3});
  g.output("y", grouped_matmul(x, w, g.input("expert", DType::i64, {5})));
  const NamedTensors inputs = {{"x", Tensor::of<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})},
                               {"w", Tensor::of<float>({2, 2, 3}, {1, 0, 2, 0, 1, -1, 3, 1, 1, 1, 1, 0})},
                               {"expert", Tensor::of<int64_t>({5}, {1, 0, -1, 1, int64_t{1} << 32})}};
  const auto out = run_reference(g, inputs);
  EXPECT_EQ(out.at("y").real, (std::vector<double>{5, 3, 1, 3, 4, 2, 0, 0, 0, 29, 15, 7, 0, 0, 0}));
}

// With every index the same, it is the matmul with that matrix.
TEST(GroupedMatMul, OneExpertIsAMatmul) {
  const OpInfo& info = op_table().at("grouped_matmul");
  Sample s = make_sample(info, "grouped_matmul(T[2,33,17], T[3,17,5], i32[2,33] in 2..2)", DType::f32,
                         Reach::direct, 1);
  const auto leaf = [&](int32_t input) {
    return s.graph.value(s.graph.node(s.graph.find("y")).inputs[static_cast<size_t>(input)]);
  };
  s.graph.output("matmul", matmul(leaf(0), reshape(slice(leaf(1), 0, 2, 1), {17, 5})));
  const auto out = run_reference(s.graph, s.inputs);
  ASSERT_EQ(out.at("y").dims, out.at("matmul").dims);
  for (size_t i = 0; i < out.at("y").real.size(); ++i) {
    EXPECT_NEAR(out.at("y").real[i], out.at("matmul").real[i], 1e-13);
  }
}

TEST(GroupedMatMul, ReferenceRunsEverySample) {
  const OpInfo& info = op_table().at("grouped_matmul");
  for (const std::string& text : info.samples) {
    SCOPED_TRACE(text);
    const Sample s = make_sample(info, text, DType::f32, Reach::direct, 1);
    const auto out = run_reference(s.graph, s.inputs);
    EXPECT_EQ(out.at("y").dims, s.graph.type(s.graph.outputs()[0].value).shape.values());
  }
}

}  // namespace
}  // namespace rlx::testing
