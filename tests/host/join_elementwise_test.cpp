// Independent element-wise nodes of one small shape become one node, and those that only look so do not.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

int64_t joints(const Graph& g) {
  return std::ranges::count_if(g.nodes(), [](const Node& n) { return n.op->name() == "batch_elementwise"; });
}

// One node for each function, of x in this type and shape.
Graph side_by_side(const std::vector<std::string>& functions, DType type, const Shape& shape) {
  Graph g;
  const Value x = g.input("x", type, shape);
  for (const std::string& f : functions) g.output("y_" + f, apply_function(f, {x}));
  return g;
}

const std::vector<std::string> kFour = {"exp", "neg", "tanh", "sqrt"};

TEST(JoinElementwise, JoinsFourOfOneShape) {
  const Graph g = join_elementwise(side_by_side(kFour, DType::f32, {3, 17}), 7);
  ASSERT_EQ(joints(g), 1);
  EXPECT_EQ(g.size(), 2);
  EXPECT_EQ(g.outputs().size(), 4u);
  EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
}

TEST(JoinElementwise, LeavesWhatDoesNotPay) {
  EXPECT_EQ(joints(join_elementwise(side_by_side({"exp", "neg", "tanh"}, DType::f32, {3, 17}), 7)), 0);
  EXPECT_EQ(joints(join_elementwise(side_by_side(kFour, DType::f32, {65536}), 7)), 0);
  EXPECT_EQ(joints(join_elementwise(side_by_side(kFour, DType::f16, {3, 17}), 7)), 0);
  EXPECT_EQ(joints(join_elementwise(side_by_side(kFour, DType::f32, {"n", 17}), 7)), 0);
  // An input and four outputs need five bindings.
  EXPECT_EQ(joints(join_elementwise(side_by_side(kFour, DType::f32, {3, 17}), 3)), 0);
  EXPECT_EQ(joints(join_elementwise(side_by_side(kFour, DType::f32, {3, 17}), 4)), 1);
}

// What one of the nodes makes reaches another of them: through a matmul, so that no region holds both.
TEST(JoinElementwise, LeavesWhatDependsOnEachOther) {
  Graph g;
  Value x = g.input("x", DType::f32, {8, 8});
  for (int i = 0; i < 6; ++i) x = matmul(exp(x), x);
  g.output("y", x);
  EXPECT_EQ(joints(join_elementwise(g, 7)), 0);
}

// The third node is read before the fifth is made: the first four and the last four do not go together.
TEST(JoinElementwise, KeepsTheOrderOfReaders) {
  Graph g;
  const Value x = g.input("x", DType::f32, {8, 8});
  std::vector<Value> made;
  for (const char* f : {"exp", "neg", "tanh", "sqrt"}) made.push_back(apply_function(f, {x}));
  const Value read = matmul(made[2], x);
  for (const char* f : {"abs", "sin", "cos", "floor"}) made.push_back(apply_function(f, {read}));
  for (size_t i = 0; i < made.size(); ++i) g.output("y" + std::to_string(i), made[i]);
  EXPECT_EQ(joints(join_elementwise(g, 9)), 2);
}

// A read of a state's old contents does not move past the write.
TEST(JoinElementwise, ReadsStatesBeforeTheyAreWritten) {
  Graph g;
  const Value state = g.state("s", DType::f32, {4});
  const Value x = g.input("x", DType::f32, {4});
  const Value old = exp(state);
  const Value written = write_state(state, x, 0, 0);
  g.output("a", old);
  g.output("b", neg(x));
  g.output("c", tanh(x));
  g.output("d", sqrt(written));
  EXPECT_EQ(joints(join_elementwise(g, 7)), 0);
}

}  // namespace
}  // namespace rlx
