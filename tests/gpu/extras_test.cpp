// The ops of rlx/extras.h against NumPy (tests/fixtures/make_extras.py). Their samples are part of the sweep.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/format.h"
#include "rlx/compile.h"
#include "rlx/custom_op.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/extras.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/fixture_cases.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

// "@cosine 5" of points.
Graph function_graph(const FixtureCase& c) {
  std::istringstream words(c.call.substr(1));
  std::string metric;
  int64_t k = 0;
  words >> metric >> k;
  Graph g;
  const Value points = g.input("d", DType::f32, Shape(c.inputs.at("d").shape()));
  const Neighbours y = umap_knn(points, k, metric == "cosine" ? Metric::cosine : Metric::euclidean);
  g.output("y0", y.ids);
  g.output("y1", y.distances);
  return g;
}

void expect_numpys(const Device* device, const CompileOptions& options = {}) {
  register_extras();
  const std::vector<FixtureCase> cases = fixture_cases("extras");
  EXPECT_GT(cases.size(), 12u);
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name + ": " + c.call);
    const bool is_function = c.call.starts_with("@");
    const NamedTensors got =
        run_or_reference(is_function ? function_graph(c) : c.graph, c.inputs, device, options);
    // Distances between points lose digits where these are close to each other.
    const Tolerance tolerance = is_function ? Tolerance{.ulps = 64, .scale = 2} : Tolerance{.ulps = 16};
    EXPECT_TRUE(close(got.at("y0"), RefTensor::from(c.results.at(0)), {}));
    EXPECT_TRUE(close(got.at("y1"), RefTensor::from(c.results.at(1)), tolerance));
  }
}

TEST(Extras, AreNumPys) { expect_numpys(&full_device()); }
TEST(Extras, AreNumPysUnderSmallLimits) { expect_numpys(&small_device()); }
TEST(Extras, AreNumPysByWorkgroups) {
  expect_numpys(&full_device(),
                {.kernels = {{"umap.knn", "workgroup"}, {"llada2.group_limited_gate", "workgroup"}}});
}
TEST(Extras, HaveTheSameReference) { expect_numpys(nullptr); }

TEST(Extras, TakeSymbols) {
  Graph g;
  g.output("ids", umap_knn(g.input("points", DType::f32, {"n", 2}), 2, Metric::euclidean).ids);
  Executable exe = compile(g, full_device());
  const Tensor ids = exe.run({{"points", Tensor::of<float>({4, 2}, {0, 0, 0, 1, 5, 0, 0, 3})}}).at("ids");
  const std::vector<double> want = {1, 3, 0, 3, 0, 1, 1, 0};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(ids.real(static_cast<int64_t>(i)), want[i]) << i;
  EXPECT_EQ(exe.run({{"points", Tensor::of<float>({1, 2}, {0, 0})}}).at("ids").real(1), 1);
}

TEST(Extras, CanBeCheckedByUsers) {
  register_extras();
  EXPECT_EQ(check_op("llada2.group_limited_gate", full_device()), 6 * 3 * 3 * 3);
  register_op({.name = "test.negated",
               .formula = "y = -x, or so",
               .wgsl = R"(
    //@ in x float
    //@ out y float
    //@ use flat
    struct Params { first: u32, end: u32, }
    fn element(i: u32) -> y_t { return -x_at(i); }
  )",
               .reference =
                   [](CustomReference& r) {
                     for (size_t i = 0; i < r.out().size(); ++i) r.out()[i] = i == 5 ? 3 : -r.in(0)[i];
                   },
               .samples = {"test.negated(T[2,2])", "test.negated(T[3,4])"}});
  EXPECT_SAYS(check_op("test.negated", full_device()), "test.negated(T[3,4]) with T = f32");
  EXPECT_SAYS(check_op("test.negated", full_device()), "instead of 3 at element 5");
  EXPECT_SAYS(check_op("reshaped", full_device()), "reshaped");
  EXPECT_SAYS(check_op("exp", full_device()), "the op 'exp' is not a custom op");
}

TEST(Extras, SayWhatIsWrong) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 4});
  EXPECT_SAYS(umap_knn(x, 2), "umap.knn: distances are square matrices, not [3, 4]");
  EXPECT_SAYS(umap_knn(g.input("d", DType::f32, {3, 3}), 0), "k is 0");
  EXPECT_SAYS(group_limited_gate(x, g.input("r", DType::f32, {3, 5})), "[3, 4] and [3, 5]");
  EXPECT_SAYS(group_limited_gate(x, x), "n_group is 8, but for 4 experts it must be from 1 to 4");
  EXPECT_SAYS(group_limited_gate(x, x, {.n_group = 3, .topk_group = 1, .top_k = 1}), "groups of equal size");
}

}  // namespace
}  // namespace rlx::testing
