// Products on matrix units: every configuration that adapters report, the device's own on its units and all
// others on emulated ones. With loads and stores of every kind they are tested in products_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/candidate.h"
#include "ops/products/product.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "tests/gpu/product_harness.h"
#include "tests/gpu/product_parts.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing::product {
namespace {

class MatrixUnits : public Products {
 protected:
  // All units of the device with components of this type, in tiles of these heights.
  void run_all(const Device& device, DType component, const std::vector<int>& heights,
               const std::vector<Sizes>& sizes, Kind kind) {
    for (const SubgroupMatrix& unit : device.caps().subgroup_matrices) {
      if (unit.component != component || unit.result == DType::f16) continue;
      for (const int rows : heights) {
        for (const Sizes& s : sizes) run_one(device, unit, rows, s, kind);
      }
    }
  }

  bool ran_ = false;

 private:
  void run_one(const Device& device, const SubgroupMatrix& unit, int rows, const Sizes& s, Kind kind) {
    Case c;
    const bool whole = unit.component == DType::i8 || unit.component == DType::u8;
    c.a = matrix(c.inputs, kind, s.batch, s.m, s.k, unit.component);
    c.b = matrix(c.inputs, kind, s.batch, s.n, s.k, unit.component);
    c.y = contiguous(s.batch, s.m, s.n, whole ? DType::i32 : unit.component);
    c.sum = whole ? DType::i32 : DType::f32;
    const std::string name =
        formatted("{}matrix FACTORS={} SUMS=32 M={} N={} K={} ROWS={}", whole ? "dot4 " : "",
                  8 * device_bytes(unit.component), unit.m, unit.n, unit.k, rows);
    run(c, name, device);
    for (const StepReport& step : steps_) ran_ = ran_ || has_words(step.variant, name);
  }
};

// Compiling takes the time, and these share what is compiled.
const std::vector<Sizes> kWhole = {{1, 1, 4, 4}, {2, 17, 36, 64}, {1, 70, 132, 100}};
const std::vector<Sizes> kOdd = {{3, 33, 9, 21}};

TEST_F(MatrixUnits, OfHalves) {
  if (!full_device().caps().shader_f16) GTEST_SKIP() << "the device has no f16";
  run_all(emulating_device(), DType::f16, {32}, kWhole, Kind::fours_along_k);
  run_all(emulating_device(), DType::f16, {16}, kOdd, Kind::along_lines);
  EXPECT_TRUE(ran_);
}

TEST_F(MatrixUnits, OfSingles) {
  run_all(emulating_device(), DType::f32, {16, 64}, kWhole, Kind::fours_along_lines);
  EXPECT_TRUE(ran_);
}

TEST_F(MatrixUnits, OfBytes) {
  run_all(emulating_device(), DType::i8, {32}, kWhole, Kind::fours_along_k);
  EXPECT_TRUE(ran_);
}

TEST_F(MatrixUnits, ThatTheDeviceHas) {
  const Device& device = experimental_device();
  if (device.caps().subgroup_matrices.empty()) GTEST_SKIP() << "the device has no matrix units";
  for (const DType component : {DType::f16, DType::i8, DType::u8}) {
    run_all(device, component, {32}, kWhole, Kind::fours_along_k);
    EXPECT_TRUE(ran_) << to_string(component);
    ran_ = false;
  }
  run_all(device, DType::f16, {64}, kOdd, Kind::along_lines);
}

TEST_F(MatrixUnits, Transposed) {
  const Tensor bias = whole_numbers(DType::f32, {3});
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 33, 37);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 3, 37);
  c.y = with_gaps(2, 33, 3);
  c.extra = {{c.inputs.add(bias), {{.view = View::contiguous({3}).broadcast_to({2, 33, 3})}, 1, 1}}};
  c.expr = "add($0,$1)";
  c.tail = [=](double v, int64_t, int64_t, int64_t col) { return v + bias.real(col); };
  run(c, "transposed matrix", emulating_device());
  EXPECT_TRUE(std::ranges::any_of(
      steps_, [](const StepReport& s) { return has_words(s.variant, "transposed matrix"); }));
}

// Scores and values of f16, and weights whose digits f16 does not hold. With other types and forms of
// attention: the sweep, and tests/gpu/attention_test.cpp.
TEST_F(MatrixUnits, OfAttention) {
  if (!full_device().caps().shader_f16) GTEST_SKIP() << "the device has no f16";
  const Graph g = parse_graph(R"(graph g {
    %q = input : f16[1, 4, 19, 20]
    %k = input : f16[1, 2, 37, 20]
    %v = input : f16[1, 2, 37, 12]
    %y = attention(%q, %k, %v) {mask="causal", kv_heads=2}
    output y = %y
  })");
  std::mt19937 random(5);
  const NamedTensors inputs = {{"q", random_tensor(DType::f16, {1, 4, 19, 20}, -2, 2, random)},
                               {"k", random_tensor(DType::f16, {1, 2, 37, 20}, -2, 2, random)},
                               {"v", random_tensor(DType::f16, {1, 2, 37, 12}, -2, 2, random)}};
  const RefTensor want = run_reference(g, inputs).at("y");
  for (const Device* device : {&experimental_device(), &emulating_device()}) {
    for (const SubgroupMatrix& unit : device->caps().subgroup_matrices) {
      if (unit.component != DType::f16 || unit.result != DType::f32) continue;
      const std::string kernel =
          formatted("matrix FACTORS=16 M={} N={} K={} SUBGROUPS=2 BLOCK=16", unit.m, unit.n, unit.k);
      Executable exe = compile(g, *device, {.kernels = {{"attention", kernel}}});
      EXPECT_TRUE(close(exe.run(inputs).at("y"), want, {.ulps = 16, .terms = 20, .scale = 8})) << kernel;
      EXPECT_TRUE(has_words(exe.plan_report().run[0].variant, kernel));
    }
  }
}

// Weights are the sums of two factors, of which one may be 0, and values may be infinite.
TEST_F(MatrixUnits, OfAttentionOverInfinities) {
  if (!full_device().caps().shader_f16) GTEST_SKIP() << "the device has no f16";
  const Graph g = parse_graph(R"(graph g {
    %q = input : f16[1, 1, 16, 16]
    %k = input : f16[1, 1, 32, 16]
    %v = input : f16[1, 1, 32, 16]
    %y = attention(%q, %k, %v)
    output y = %y
  })");
  for (const double distance : {0.0, 2.0, 20.0, 60.0}) {  // between the score of key 3 and the others
    for (const double odd : {1.0 / 0.0, -1.0 / 0.0}) {
      std::vector<double> q(256, 0), k(512, 0), v(512, 1);
      for (size_t i = 0; i < 256; i += 16) q[i] = 4;
      k[48] = -distance;
      for (size_t i = 48; i < 64; ++i) v[i] = odd;
      const NamedTensors inputs = {{"q", Tensor::from_doubles(DType::f16, {1, 1, 16, 16}, q)},
                                   {"k", Tensor::from_doubles(DType::f16, {1, 1, 32, 16}, k)},
                                   {"v", Tensor::from_doubles(DType::f16, {1, 1, 32, 16}, v)}};
      for (const Device* device : {&experimental_device(), &emulating_device()}) {
        Executable exe = compile(g, *device, {.kernels = {{"attention", "matrix FACTORS=16"}}});
        const Tensor y = exe.run(inputs).at("y");
        EXPECT_TRUE(has_words(exe.plan_report().run[0].variant, "matrix"));
        for (int64_t i = 0; i < y.elements(); ++i) ASSERT_EQ(y.real(i), odd) << distance << ", " << i;
      }
    }
  }
}

TEST_F(MatrixUnits, ThatCannotBeEmulatedAreRefused) {
  for (const SubgroupMatrix& unit : {SubgroupMatrix{DType::f16, DType::f32, 0, 0, 0},
                                     {DType::f16, DType::f32, 12, 12, 12},
                                     {DType::f32, DType::f32, 8, 8, 16},
                                     {DType::i8, DType::u32, 8, 8, 32},
                                     {DType::bf16, DType::f32, 16, 16, 16}}) {
    DeviceOptions options;
    options.limits.emulated_matrices = {unit};
    EXPECT_SAYS(Device::open(options), "cannot be emulated: m and n are 8 or 16");
  }
}

// Operands that f16 does not hold are no factors of its units.
TEST_F(MatrixUnits, AreNotGivenWhatTheyWouldRound) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 1, 33, 37, DType::f16);
  c.b = matrix(c.inputs, Kind::along_k, 1, 9, 37, DType::f32);
  c.y = contiguous(1, 33, 9);
  run(c, "matrix FACTORS=16", experimental_device());
  EXPECT_FALSE(
      std::ranges::any_of(steps_, [](const StepReport& s) { return has_words(s.variant, "FACTORS=16"); }));
}

}  // namespace
}  // namespace rlx::testing::product
