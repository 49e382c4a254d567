#include "tests/support/fusion_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ir/dtype.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "ops/elementwise/elementwise.h"
#include "passes/pass_order.h"
#include "rlx/graph.h"
#include "tests/support/compare.h"
#include "tests/support/sample.h"

namespace rlx::testing {

Graph graph_of(const std::string& body) { return parse_graph("graph g {\n" + body + "\n}"); }

namespace {

NamedTensors random_leaves(const Graph& graph) {
  std::mt19937 random(7);
  NamedTensors leaves;
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input) && !n.op->is(LeafKind::param)) continue;
    leaves[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random);
  }
  return leaves;
}

void expect_equal(const RefTensor& got, const RefTensor& want, double allowed) {
  ASSERT_EQ(got.dims, want.dims);
  EXPECT_EQ(got.dtype, want.dtype);
  EXPECT_EQ(got.ints, want.ints);
  ASSERT_TRUE(within(got.real, want.real, allowed, allowed));
}

// On the host a cast to a 16-bit float rounds, and an op with such a result does not: where a cast becomes
// part of an op, a few units are missing. Those of the device are compared in tests/gpu/casts_test.cpp.
double allowed_error(const Graph& graph) {
  double allowed = 1e-9;
  for (const Node& n : graph.nodes()) {
    const DType type = n.outputs[0].dtype;
    const bool narrows = op_cast<Cast>(*n.op) && is_float(type) && type != DType::f32;
    if (narrows) allowed = std::max(allowed, 4 * epsilon(type));
  }
  return allowed;
}

}  // namespace

// The same values from both graphs: random ones, and again with the first and the last number of each input
// replaced by a value that spreads.
void expect_same_values(const Graph& got, const Graph& want) {
  const double allowed = allowed_error(want);
  const auto compare_all = [&](const NamedTensors& leaves) {
    const auto wanted = run_reference(want, leaves);
    const auto found = run_reference(got, leaves);
    for (const auto& [name, value] : wanted) expect_equal(found.at(name), value, allowed);
  };
  const NamedTensors plain = random_leaves(want);
  compare_all(plain);
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& [name, tensor] : plain) {
    if (!is_float(tensor.dtype()) || tensor.elements() == 0) continue;
    for (const double bad : {inf, -inf, std::nan("")}) {
      for (const bool whole : {false, true}) {
        SCOPED_TRACE(name + " holds " + std::to_string(bad));
        std::vector<double> values = tensor.doubles();
        if (whole) {
          std::ranges::fill(values, bad);
        } else {
          values.back() = bad;
        }
        NamedTensors leaves = plain;
        leaves[name] = Tensor::from_doubles(tensor.dtype(), tensor.shape(), values);
        compare_all(leaves);
      }
    }
  }
  for (const auto& [name, tensor] : plain) {
    if (tensor.dtype() != DType::bool_) continue;
    NamedTensors leaves = plain;
    leaves[name] = Tensor::from_ints(DType::bool_, tensor.shape(),
                                     std::vector<int64_t>(static_cast<size_t>(tensor.elements()), 0));
    compare_all(leaves);
  }
}

void expect_cases(const std::function<Graph(const Graph&)>& pass, std::string_view sign,
                  const std::vector<FusionCase>& cases) {
  for (const FusionCase& c : cases) {
    SCOPED_TRACE(std::string(c.what) + "\n" + c.body);
    const Graph before = graph_of(c.body);
    const Graph after = pass(before);
    verify(after);
    EXPECT_EQ(to_text(after).contains(sign), c.fuses) << to_text(after);
    if (before.symbols().empty()) expect_same_values(after, before);
    verify(optimize(before, {}));
    if (before.symbols().empty()) expect_same_values(optimize(before, {}), before);
  }
}

std::string product(const std::string& rest) {
  return "%a = input : f32[4, 8]\n%b = param : f32[8, 6]\n%m = matmul(%a, %b)\n" + rest;
}

}  // namespace rlx::testing
