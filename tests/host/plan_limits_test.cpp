// Plans that no device can hold are errors before they are made, and ops that go through their data need few
// dispatches for it.
#include <gtest/gtest.h>

#include "kernels/dispatch_limit.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "rlx/caps.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/recurrent.h"
#include "rlx/ops/run_sizes.h"
#include "rlx/value.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

int64_t dispatches(const Graph& graph, const Target& target = {}) {
  return std::ssize(lower(materialize_views(optimize(expand_ops(graph), {})), target).dispatches);
}

Graph unique_slices(int64_t count, int64_t length) {
  Graph g;
  g.output("y", unique(g.input("x", DType::f32, {count, length}), {.axis = 0}).values);
  return g;
}

TEST(PlanLimits, UniqueNeedsFewDispatchesForLongSlices) {
  EXPECT_LT(dispatches(unique_slices(2, 1 << 20)), 50);
  EXPECT_LT(dispatches(unique_slices(1 << 12, 1 << 10)), 80);
  EXPECT_LT(dispatches(unique_slices(1 << 20, 8)), 60);
}

TEST(PlanLimits, TooManyDispatchesAreAnErrorThatNamesTheNode) {
  // Not optimised, so that there are two nodes, of which none alone is too much.
  Target target;
  target.caps.max_binding_bytes = 4096;
  target.caps.max_storage_buffers = 2;
  Graph g;
  const Value x = g.input("x", DType::f32, {1024 * (kMostDispatches / 2 + 1)});
  g.output("once", exp(x).named("first"));
  g.output("twice", tanh(x).named("second"));
  const std::string said = message([&] { lower(g, target); });
  EXPECT_TRUE(said.contains("while lowering node 'second' (tanh)")) << said;
  EXPECT_TRUE(said.contains(formatted("a plan can have {}", kMostDispatches))) << said;
  EXPECT_TRUE(said.contains("of the nodes before it")) << said;
}

TEST(PlanLimits, OneNodeStopsAsSoonAsItHasTooMany) {
  Target target;
  target.caps.max_binding_bytes = 4096;
  Graph g;
  g.output("y", exp(g.input("x", DType::f32, {int64_t{1} << 30})).named("endless"));
  const std::string said = message([&] { lower(g, target); });
  EXPECT_TRUE(said.contains("while lowering node 'endless' (exp)")) << said;
  EXPECT_TRUE(said.contains(formatted("at least {} dispatches", kMostDispatches + 1))) << said;
}

TEST(PlanLimits, MoreMemoryThanTheDeviceHasIsAnErrorBeforeItIsAllocated) {
  Caps caps;
  caps.adapter = "small one";
  caps.memory_bytes = 1 << 20;
  Graph g;
  g.output("y", exp(g.input("x", DType::f32, {1 << 18})).named("large"));
  const Program program = lower(g, {.caps = caps});
  const std::vector<Placement> fixed(program.storages.size());
  EXPECT_SAYS(
      make_plan(program, fixed, 0, caps),
      "the plan needs 2097152 bytes for inputs and intermediates, but the device 'small one' has 1048576");
  caps.memory_bytes = 2 << 20;
  EXPECT_EQ(make_plan(program, fixed, 0, caps).dispatches.size(), 1u);
}

// As long as the state of a row fits in workgroup memory, a recurrent network loops in its kernel.
TEST(PlanLimits, LongSequencesAreOneDispatch) {
  Graph g;
  const int64_t size = 64;
  const Value x = g.input("x", DType::f32, {20000, 1, 8});
  const Value w = g.param("w", DType::f32, {1, 3 * size, 8});
  g.output("y", gru(x, w, g.param("r", DType::f32, {1, 3 * size, size})).y);
  Target target;
  EXPECT_LT(dispatches(g, target), 20);
  target.caps.max_workgroup_bytes = 256;
  EXPECT_SAYS(dispatches(g, target), "dispatches, and a plan can have");
}

}  // namespace
}  // namespace rlx::testing
