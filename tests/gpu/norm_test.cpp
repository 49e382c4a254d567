// Norms of rows far from zero: a mean of 1e5 with a deviation of 1.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "ops/normalization/norm.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

// Multiples of 1/64, so that sums near 1e5 are exact in f32 and only the norm itself is tested.
Tensor normal(const std::vector<int64_t>& dims, double mean, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> deviation(0, 1);
  std::vector<double> values(static_cast<size_t>(product(dims)));
  for (double& v : values) v = mean + std::round(64 * deviation(random)) / 64;
  return Tensor::from_doubles(DType::f32, dims, values);
}

void expect_close(const std::shared_ptr<Op>& op, const std::vector<Tensor>& inputs, const Device& device,
                  const std::string& variant) {
  SCOPED_TRACE(std::string(op->name()) + " " + variant);
  Graph g;
  NamedTensors leaves;
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    leaves[name] = inputs[i];
    values.push_back(g.input(name, DType::f32, Shape(inputs[i].shape())));
  }
  g.output("y", g.add_value(op, values));
  const Tensor got =
      compile(g, device, {.kernels = {{std::string(op->name()), variant}}}).run(leaves).at("y");
  std::vector<TensorType> types;
  for (const Value& v : values) types.push_back(v.type());
  EXPECT_TRUE(close(got, run_reference(g, leaves).at("y"), op->tolerance(types)));
}

TEST(Norm, EveryVariantIsAccurateFarFromZero) {
  for (const int64_t n : {257, 3000}) {
    const Tensor x = normal({3, n}, 1e5, 1);
    const Tensor residual = normal({3, n}, 0, 2);
    const Tensor gamma = normal({n}, 1, 3);
    for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
      const auto norm = std::make_shared<Norm>(kind);
      for (const std::string& variant : op_table().find(norm->name())->variants)
        expect_close(norm, {x, gamma}, full_device(), variant);
      const auto both = std::make_shared<ResidualNorm>(kind);
      for (const std::string& variant : op_table().find(both->name())->variants)
        expect_close(both, {x, residual, gamma}, full_device(), variant);
    }
  }
}

// What exporters write out becomes one node, which is the more accurate of the two (docs/arithmetic.md).
TEST(Norm, OneNodeIsMoreAccurateThanItsParts) {
  const Graph g = parse_graph(R"(graph g {
    %x = input : f32[35, 8]
    %mean = mean(%x) {axes=[1], keepdims=true}
    %c = sub(%x, %mean)
    %s = square(%c)
    %v = mean(%s) {axes=[1], keepdims=true}
    %e = add(%v, 0.1)
    %d = sqrt(%e)
    %y = div(%c, %d)
    output y = %y
  })");
  std::mt19937 random(6);
  std::normal_distribution<float> deviation(100, 1);
  std::vector<float> x(35 * 8);
  for (float& v : x) v = deviation(random);
  const NamedTensors inputs = {{"x", Tensor::of<float>({35, 8}, x)}};
  const RefTensor want = run_reference(g, inputs).at("y");
  const auto error = [&](bool optimize) {
    Executable exe = compile(g, full_device(), {.optimize = optimize});
    EXPECT_EQ(to_text(*exe.graph()).contains("layer_norm"), optimize);
    const Tensor got = exe.run(inputs).at("y");
    double worst = 0;
    for (int64_t i = 0; i < got.elements(); ++i) {
      const double off = std::abs(got.real(i) - want.real[static_cast<size_t>(i)]);
      worst = off <= worst ? worst : off;  // NaN is the worst
    }
    return worst;
  };
  const double parts = error(false);
  EXPECT_LT(error(true), 5e-7);
  EXPECT_GT(parts, 1e-6);
  EXPECT_LT(parts, 2e-5);
}

// Rows that no binding can hold are computed in whole-tensor steps.
TEST(Norm, StagedRowsAreAccurateFarFromZero) {
  const int64_t n = 40000;  // of 160 kB each: x, gamma and y need more than 8 bindings of 64 KiB
  expect_close(std::make_shared<Norm>(NormKind::layer), {normal({2, n}, 1e5, 4), normal({n}, 1, 5)},
               small_device(), "serial");
}

}  // namespace
}  // namespace rlx::testing
