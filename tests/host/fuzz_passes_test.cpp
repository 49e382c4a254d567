// What the passes make of random graphs computes the same, and survives the text form.
#include <gtest/gtest.h>

#include "ir/reference.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "tests/support/compare.h"
#include "tests/support/random_graph.h"

namespace rlx::testing {
namespace {

void expect_same(const RandomGraph& r, const Graph& changed) {
  const auto want = run_reference(r.graph, r.leaves);
  const auto got = run_reference(changed, r.leaves);
  for (const auto& [name, value] : want) {
    const RefTensor& g = got.at(name);
    ASSERT_EQ(g.dims, value.dims);
    ASSERT_EQ(g.ints, value.ints) << name << "\n" << to_text(r.graph) << to_text(changed);
    ASSERT_TRUE(within(g.real, value.real, 1e-9, 1e-9)) << name << "\n"
                                                        << to_text(r.graph) << to_text(changed);
  }
}

TEST(FuzzPasses, OptimisedGraphsComputeTheSame) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph r = random_graph(seed);
    const Graph optimized = optimize(r.graph, {});
    verify(optimized);
    expect_same(r, parse_graph(to_text(materialize_views(optimized))));
  }
}

TEST(FuzzPasses, AlsoWithBranchesAndLoops) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph r = random_graph(seed, {.control_flow = true});
    verify(r.graph);
    const Graph optimized = optimize(expand_ops(fold_batch_norm(r.graph)), {});
    verify(optimized);
    const Graph back = parse_graph(to_text(optimized));
    expect_same(r, back.is_static() ? materialize_views(back) : back);
  }
}

}  // namespace
}  // namespace rlx::testing
