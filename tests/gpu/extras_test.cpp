// The ops of rlx/extras.h against NumPy (tests/fixtures/make_extras.py). Their samples are part of the sweep.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/format.h"
#include "rlx/custom_op.h"
#include "rlx/extras.h"
#include "rlx/rlx.h"
#include "rlx/safetensors.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

// A call as text, or "@cosine 5" of points.
Graph graph_of(const std::string& call, const NamedTensors& inputs) {
  if (call.starts_with("@")) {
    std::istringstream words(call.substr(1));
    std::string metric;
    int64_t k = 0;
    words >> metric >> k;
    Graph g;
    const Value points = g.input("d", DType::f32, Shape(inputs.at("d").shape()));
    const std::vector<Value> y = umap_knn(points, k, metric == "cosine" ? Metric::cosine : Metric::euclidean);
    g.output("y0", y[0]);
    g.output("y1", y[1]);
    return g;
  }
  std::string text = "graph g {\n";
  for (const auto& [name, value] : inputs) text += formatted("  %{} = input : {}\n", name, value.type_text());
  return parse_graph(text + "  %y = " + call + "\n  output y0 = %y\n  output y1 = %y:1\n}\n");
}

void expect_numpys(const Device* device, const CompileOptions& options = {}) {
  register_extras();
  const auto file = SafetensorsFile::open(RLX_SOURCE_DIR "/tests/fixtures/extras.safetensors");
  int cases = 0;
  for (const auto& [name, call] : file.metadata()) {
    if (name == "made_by") continue;
    SCOPED_TRACE(name + ": " + call);
    NamedTensors inputs;
    for (const std::string input : {"d", "routing"}) {
      if (file.find(name + "." + input)) inputs.emplace(input, file.tensor(name + "." + input));
    }
    const Graph graph = graph_of(call, inputs);
    NamedTensors got;
    if (device) {
      got = compile(graph, *device, options).run(inputs);
    } else {
      for (const auto& [output, value] : run_reference(graph, inputs)) got[output] = value.to_tensor();
    }
    // Distances between points lose digits where these are close to each other.
    const Tolerance tolerance =
        call.starts_with("@") ? Tolerance{.ulps = 64, .scale = 2} : Tolerance{.ulps = 16};
    EXPECT_TRUE(close(got.at("y0"), RefTensor::from(file.tensor(name + ".0")), {}));
    EXPECT_TRUE(close(got.at("y1"), RefTensor::from(file.tensor(name + ".1")), tolerance));
    ++cases;
  }
  EXPECT_GT(cases, 12);
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
  g.output("ids", umap_knn(g.input("points", DType::f32, {"n", 2}), 2, Metric::euclidean)[0]);
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
