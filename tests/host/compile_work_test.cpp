// How much work compilation takes: kernels stay small, and twice the graph is twice the work.
#include <gtest/gtest.h>

#include "ops/elementwise/elementwise.h"
#include "ops/linear_algebra/matmul.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "plan/arena.h"
#include "plan/plan.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/allocations.h"

namespace rlx::testing {
namespace {

Graph chain(int64_t nodes, std::string_view function) {
  Graph g;
  Value x = g.input("x", DType::f32, {64});
  for (int64_t i = 0; i < nodes; ++i) x = g.add_value(elementwise(function), {x});
  g.output("y", x);
  return g;
}

// Every node has its own constant and slice, which all request the same names.
Graph wide(int64_t pairs) {
  Graph g;
  const Value all = g.input("x", DType::f32, {pairs, 4});
  for (int64_t i = 0; i < pairs; ++i) {
    const Value part = slice(all, 0, i, 1).named("part");
    g.output("y" + std::to_string(i), exp(part + g.scalar(DType::f32, static_cast<double>(i))).named("pair"));
  }
  return g;
}

struct Compiled {
  Graph graph;
  Plan plan;
};

// Everything that comes before pipelines.
Compiled compile_on_host(const Graph& source) {
  Graph g = materialize_views(bind_symbols(optimize(source, {}), {}));
  const Program program = lower(g, Target{});
  std::vector<Placement> fixed(program.storages.size());
  for (size_t s = 0; s < fixed.size(); ++s) {
    const auto leaf = program.storages[s].leaf;
    if (leaf && *leaf != LeafKind::input) fixed[s] = {0, 0, program.storages[s].bytes};
  }
  Plan plan = make_plan(program, fixed, 1, Caps{});
  return {std::move(g), std::move(plan)};
}

std::vector<int64_t> kernel_costs(const Graph& graph) {
  std::vector<int64_t> costs;
  for (const Node& n : graph.nodes()) {
    const auto* op = dynamic_cast<const ElementwiseOp*>(n.op.get());
    if (!op) continue;
    std::vector<DType> types;
    for (ValueId v : n.inputs) types.push_back(graph.type(v).dtype);
    costs.push_back(op->expr(types).cost());
  }
  return costs;
}

TEST(CompileWork, KernelsStayWithinTheirBudget) {
  for (const char* function : {"tanh", "neg", "sqrt"}) {
    const std::vector<int64_t> costs = kernel_costs(optimize(chain(300, function), {}));
    EXPECT_GT(costs.size(), 1u) << function;
    EXPECT_LE(costs.size(), 300u / 8) << function;
    for (int64_t cost : costs) EXPECT_LE(cost, kRegionBudget) << function;
  }
  // What is written as one function stays one kernel.
  EXPECT_EQ(kernel_costs(optimize(chain(8, "gelu"), {})).size(), 1u);
}

TEST(CompileWork, EpiloguesStayWithinItToo) {
  Graph g;
  Value x = matmul(g.input("x", DType::f32, {4, 8}), g.param("w", DType::f32, {8, 8}));
  for (int i = 0; i < 300; ++i) x = tanh(x);
  g.output("y", x);
  const Graph optimized = optimize(g, {});
  int products = 0;
  for (const Node& n : optimized.nodes()) {
    const auto* op = op_cast<MatMul>(*n.op);
    if (!op) continue;
    ++products;
    EXPECT_FALSE(op->epilogue.empty());
    EXPECT_LE(op->typed_epilogue(std::array{DType::f32, DType::f32}).cost(), kRegionBudget);
  }
  EXPECT_EQ(products, 1);
}

TEST(CompileWork, TwiceTheGraphIsTwiceTheWork) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer allocates";
  const auto work = [](const Graph& g) {
    const AllocationCounter counter;
    compile_on_host(g);
    return counter.count();
  };
  const auto expect_linear = [&](const char* what, const Graph& small, const Graph& large) {
    work(small);  // tables are made once
    const int64_t one = work(small);
    const int64_t two = work(large);
    EXPECT_LT(two, 2.2 * static_cast<double>(one)) << what << ": " << one << " and " << two;
  };
  expect_linear("chain", chain(2000, "neg"), chain(4000, "neg"));
  expect_linear("dear chain", chain(2000, "tanh"), chain(4000, "tanh"));
  expect_linear("wide", wide(1000), wide(2000));
}

TEST(CompileWork, TheArenaStepsOverGroupsOfBlocks) {
  // Outputs, all alive to the end; a chain, each alive together with the next; and both with sizes that
  // differ.
  const auto steps = [](int32_t n, auto life, auto bytes) {
    Arena arena(0, int64_t{1} << 40);
    for (int32_t i = 0; i < n; ++i) arena.place(bytes(i, n), life(i, n));
    return arena.steps();
  };
  const auto outputs = [](int32_t i, int32_t n) { return Lifetime{i, n}; };
  const auto neighbours = [](int32_t i, int32_t) { return Lifetime{i, i + 1}; };
  const auto equal = [](int32_t, int32_t) { return int64_t{4096}; };
  const auto falling = [](int32_t i, int32_t n) { return int64_t{256} * (n - i); };
  const auto expect_few = [&](const char* what, auto life, auto bytes) {
    // Looking at every block for every block would be 8 million; this is one group for each.
    EXPECT_LT(steps(4000, life, bytes), 4000 * 300) << what;
  };
  expect_few("outputs", outputs, equal);
  expect_few("neighbours", neighbours, equal);
  expect_few("outputs that differ", outputs, falling);
  expect_few("neighbours that differ", neighbours, falling);
}

TEST(CompileWork, TheArenaFindsTheLowestPlace) {
  Arena arena(3, 4096);
  EXPECT_EQ(arena.place(1000, {0, 2}).offset, 0);
  EXPECT_EQ(arena.place(512, {1, 4}).offset, 1024);
  EXPECT_EQ(arena.place(512, {3, 5}).offset, 0);
  EXPECT_EQ(arena.place(300, {4, 5}).offset, 512);
  EXPECT_EQ(arena.place(600, {4, 4}).offset, 1536);
  const Placement other = arena.place(4000, {4, 4});
  EXPECT_EQ(other.buffer, 4);
  EXPECT_EQ(other.offset, 0);
  EXPECT_EQ(arena.sizes(), (std::vector<int64_t>{2304, 4096}));
}

TEST(CompileWork, NamesThatManyWantAreNumbered) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2});
  for (int i = 0; i < 70; ++i) neg(x).named("same");
  EXPECT_GE(g.find("same_69"), 0);
  EXPECT_LT(g.find("same_70"), 0);
  g.output("y", x);
  EXPECT_THROW(g.output("y", x), Error);
}

}  // namespace
}  // namespace rlx::testing
