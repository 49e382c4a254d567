// verify_outputs: finds what an optimisation changed, and nothing else. The reference stands in for the
// device, with every value rounded as memory rounds it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/evaluate.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/diagnostics.h"
#include "rlx/graph.h"
#include "tests/support/random_graph.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

std::vector<RefTensor> rounded(const Node& n, const std::vector<const RefTensor*>& inputs) {
  std::vector<RefTensor> outputs = run_reference(n, inputs);
  for (RefTensor& t : outputs) t = RefTensor::from(t.to_tensor());
  return outputs;
}

NamedTensors run_rounded(const Graph& graph, const NamedTensors& leaves) {
  NamedTensors out;
  for (const auto& [name, value] : evaluate(graph, leaves, rounded)) out[name] = value.to_tensor();
  return out;
}

NamedTensors random_leaves(const Graph& graph, double high = 2) {
  std::mt19937 random(3);
  NamedTensors leaves;
  for (const Node& n : graph.nodes()) {
    if (n.op->is(LeafKind::input) || n.op->is(LeafKind::param))
      leaves[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -high, high, random);
  }
  return leaves;
}

int64_t wrong(const std::vector<OutputCheck>& checks) {
  int64_t n = 0;
  for (const OutputCheck& c : checks) n += c.wrong;
  return n;
}

TEST(VerifyOutputs, FindsAFusionThatChangesTheMeaning) {
  const std::string leaves_text =
      "%q = input : f32[2,3,5,4] %k = input : f32[2,3,7,4] %v = input : f32[2,3,7,4] ";
  const Graph written = parse_graph("graph g { " + leaves_text +
                                    "%kt = transpose(%k) {perm=[0,1,3,2]} %s = matmul(%q,%kt) "
                                    "%p = log_softmax(%s) %y = matmul(%p,%v) output y = %y }");
  const Graph fused =
      parse_graph("graph g { " + leaves_text + "%y = attention(%q,%k,%v) {scale=1} output y = %y }");
  const NamedTensors leaves = random_leaves(written);
  const auto checks = verify_outputs(written, leaves, run_rounded(fused, leaves));
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_GT(checks[0].wrong, 100);
  const std::string text = to_text(checks[0]);
  EXPECT_TRUE(text.starts_with("output 'y' is wrong: element 0 of f32[2, 3, 5, 4] is ")) << text;
  EXPECT_EQ(wrong(verify_outputs(written, leaves, run_rounded(written, leaves))), 0);
}

TEST(VerifyOutputs, KnowsNanAndInfinity) {
  const Graph g = parse_graph("graph g { %x = input : f32[3] %y = log(%x) output y = %y }");
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const NamedTensors leaves = {{"x", Tensor::of<float>({3}, {-1, 0, 1})}};
  const auto check = [&](std::vector<float> y) {
    return verify_outputs(g, leaves, {{"y", Tensor::of<float>({3}, std::move(y))}})[0];
  };
  EXPECT_EQ(check({nan, -inf, 0}).wrong, 0);
  EXPECT_EQ(check({0, -inf, 0}).index, 0);
  EXPECT_EQ(check({nan, nan, 0}).index, 1);
  EXPECT_EQ(check({nan, inf, 0}).index, 1);
  EXPECT_EQ(check({nan, -inf, nan}).index, 2);
  EXPECT_EQ(check({nan, -inf, 1e-3F}).index, 2);
}

TEST(VerifyOutputs, AllowsWhatOverflowDecides) {
  const Graph g = parse_graph("graph g { %x = input : f32[2] %e = exp(%x) %y = div(%e, %e) output y = %y }");
  const NamedTensors leaves = {{"x", Tensor::of<float>({2}, {100, 1})}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto check =
      verify_outputs(g, leaves, {{"y", Tensor::of<float>({2}, {nan, 1})}})[0];  // infinity by infinity
  EXPECT_EQ(check.wrong, 0) << to_text(check);
  EXPECT_EQ(check.unclear, 1);
}

TEST(VerifyOutputs, IntegersAreEqualUnlessRoundingDecides) {
  const Graph exact = parse_graph("graph g { %x = input : i32[3] %y = add(%x, 1) output y = %y }");
  const NamedTensors ints = {{"x", Tensor::of<int32_t>({3}, {1, 2, 3})}};
  EXPECT_EQ(wrong(verify_outputs(exact, ints, {{"y", Tensor::of<int32_t>({3}, {2, 3, 4})}})), 0);
  EXPECT_EQ(wrong(verify_outputs(exact, ints, {{"y", Tensor::of<int32_t>({3}, {2, 3, 5})}})), 1);
  // The sum of a row of thirds may lie on either side of 1.
  const Graph decided =
      parse_graph("graph g { %x = input : f32[2,3] %s = sum(%x) {axes=[1]} %y = less(%s, 1) output y = %y }");
  const float third = 1.0F / 3;
  const NamedTensors reals = {{"x", Tensor::of<float>({2, 3}, {third, third, third, 0, 0, 0})}};
  for (const int64_t either : {0, 1}) {
    const std::vector<int64_t> y = {either, 1};
    EXPECT_EQ(wrong(verify_outputs(decided, reals, {{"y", Tensor::from_ints(DType::bool_, {2}, y)}})), 0);
  }
}

TEST(VerifyOutputs, WantsTheShapeOfTheReference) {
  const Graph g = parse_graph("graph g { %x = input : f32[2] %y = neg(%x) output y = %y }");
  const NamedTensors leaves = {{"x", Tensor::of<float>({2}, {1, 2})}};
  EXPECT_TRUE(
      to_text(verify_outputs(g, leaves, {{"y", Tensor::of<float>({1}, {-1})}})[0]).contains("f32[1]"));
  EXPECT_THROW(verify_outputs(g, leaves, {}), Error);
}

TEST(VerifyOutputs, TakesValuesFarFromOne) {
  const Graph g = parse_graph(
      "graph g { %a = input : f32[16,300] %b = input : f32[300,16] %m = matmul(%a,%b) %y = tanh(%m) "
      "output m = %m output y = %y }");
  for (const double size : {1e-12, 1e-3, 1e4}) {
    const NamedTensors leaves = random_leaves(g, size);
    NamedTensors outputs = run_rounded(g, leaves);
    EXPECT_EQ(wrong(verify_outputs(g, leaves, outputs)), 0) << size;
    // Small values are not hidden by a bound for large ones.
    std::vector<double> m = outputs.at("m").doubles();
    m[7] += 1e-2 * *std::ranges::max_element(m);
    outputs["m"] = Tensor::from_doubles(DType::f32, {16, 16}, m);
    EXPECT_EQ(wrong(verify_outputs(g, leaves, outputs)), 1) << size;
  }
}

TEST(VerifyOutputs, LooksIntoCalls) {
  const Graph g = parse_graph(R"(graph g {
    %a = input : f32[16, 3000]
    %b = input : f32[3000, 16]
    %y = call(%a, %b) {body=graph body {
      %a = input : f32[16, 3000]
      %b = input : f32[3000, 16]
      %m = matmul(%a, %b)
      output m = %m
    }}
    output y = %y
  })");
  const NamedTensors leaves = random_leaves(g);
  // As far off as a sum of 3000 products in f32 may be.
  NamedTensors outputs = run_rounded(g, leaves);
  std::vector<double> y = outputs.at("y").doubles();
  for (double& v : y) v += 1e-5 * std::sqrt(3000.0);
  outputs["y"] = Tensor::from_doubles(DType::f32, {16, 16}, y);
  EXPECT_EQ(wrong(verify_outputs(g, leaves, outputs)), 0);
}

TEST(VerifyOutputs, AgreesWithRandomGraphsAndSeesOneWrongElement) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph r = random_graph(seed);
    NamedTensors outputs = run_rounded(materialize_views(optimize(r.graph, {})), r.leaves);
    int64_t nodes = 0;
    for (const OutputCheck& c :
         verify_outputs(r.graph, r.leaves, outputs, [&](int64_t done, int64_t all) { nodes = all - done; })) {
      EXPECT_EQ(c.wrong, 0) << to_text(c) << "\n" << to_text(r.graph, 8);
      EXPECT_EQ(c.unclear, 0);
    }
    EXPECT_EQ(nodes, 0);
    const Tensor& y = outputs.at("y");
    if (y.elements() == 0 || seed % 4 != 0) continue;  // a quarter of them is enough for this
    std::vector<double> values = y.doubles();
    values.back() += 0.1 * (1 + std::fabs(values.back()));
    outputs["y"] = Tensor::from_doubles(y.dtype(), y.shape(), values);
    const auto checks = verify_outputs(r.graph, r.leaves, outputs);
    EXPECT_EQ(wrong(checks) > 0, true) << to_text(r.graph, 8);
  }
}

TEST(VerifyOutputs, LooksIntoBranchesAndLoops) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph r = random_graph(seed, {.control_flow = true});
    const NamedTensors outputs = run_rounded(optimize(expand_ops(r.graph), {}), r.leaves);
    for (const OutputCheck& c : verify_outputs(r.graph, r.leaves, outputs))
      EXPECT_EQ(c.wrong, 0) << to_text(c) << "\n" << to_text(r.graph, 8);
  }
}

}  // namespace
}  // namespace rlx::testing
