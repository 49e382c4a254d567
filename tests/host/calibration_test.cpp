// Files of calibrations, what lowering takes from them, and the arithmetic of costs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/format.h"
#include "kernels/dispatch_cost.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "plan/program.h"
#include "rlx/calibration.h"
#include "rlx/models.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "runtime/calibration.h"
#include "runtime/compile_graph.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

namespace fs = std::filesystem;

Calibration some() {
  return {.device_name = "A (card) 9000",
          .backend = "vulkan",
          .driver = "1.2.3 \"x\"",
          .sgemm_gflops = 1234.5,
          .memory_bw_gbps = 400.25,
          .cache_bw_gbps = 900,
          .dispatch_ns = 2500,
          .submit_ns = 12000,
          .roundtrip_overhead_ns = 80000};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// --- The file ---

class CalibrationFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / formatted("rlx-calibration-test-{}", getpid());
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  fs::path folder;
};

TEST(CalibrationText, IsReadBack) {
  const Calibration c = some();
  EXPECT_EQ(Calibration::from_json(c.to_json()), c);
  for (const char* name : {"\"device_name\": \"A (card) 9000\"", "\"sgemm_gflops\": 1234.5",
                           "\"roundtrip_overhead_ns\": 80000.0", "\"memory_bw_gbps\": 400.25", "\"version\""})
    EXPECT_TRUE(c.to_json().contains(name)) << name << c.to_json();
}

TEST(CalibrationText, NamesOfFilesAreSlugs) {
  EXPECT_EQ(Calibration::file_name("A (card) 9000"), "wgpu-calib-A__card__9000.json");
  EXPECT_EQ(Calibration::file_name("../x\xc3\xa9"), "wgpu-calib-___x__.json");
}

TEST(CalibrationText, WhatIsWrongIsSaid) {
  const std::string good = some().to_json();
  EXPECT_SAYS(Calibration::from_json(""), "no JSON");
  EXPECT_SAYS(Calibration::from_json(good.substr(0, good.size() / 2)), "no JSON");
  EXPECT_SAYS(Calibration::from_json("[1, 2]"), "it has no 'version'");
  EXPECT_SAYS(Calibration::from_json(replaced(good, "\"version\": 1", "\"version\": 7")), "version is 7");
  EXPECT_SAYS(Calibration::from_json(replaced(good, "sgemm_gflops", "sgemm_flops")), "no 'sgemm_gflops'");
  EXPECT_SAYS(Calibration::from_json(replaced(good, "1234.5", "-3")), "'sgemm_gflops' is -3");
  EXPECT_SAYS(Calibration::from_json(replaced(good, "1234.5", "0")), "no positive number");
  EXPECT_SAYS(Calibration::from_json(replaced(good, "1234.5", "\"fast\"")), "no positive number");
  EXPECT_SAYS(Calibration::from_json(replaced(good, "\"vulkan\"", "5")), "'backend' is 5");
}

TEST_F(CalibrationFile, IsReplacedAsAWhole) {
  Calibration c = some();
  const std::string path = c.save(folder.string());
  EXPECT_EQ(path, (folder / "wgpu-calib-A__card__9000.json").string());
  c.sgemm_gflops = 99;
  c.save(folder.string());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(Calibration::from_json(text.str()), c);
  // Nothing that was written on the way stays.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST_F(CalibrationFile, AFolderThatCannotBeWrittenIsAnError) {
  std::ofstream(folder / "file") << "x";
  EXPECT_SAYS(some().save((folder / "file").string()), "cannot be written");
  // The place is taken by a folder: nothing is left beside it.
  fs::create_directories(folder / "wgpu-calib-A__card__9000.json" / "inside");
  EXPECT_SAYS(some().save(folder.string()), "cannot be written");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
}

// --- Rates ---

Caps lavapipe() {
  Caps caps;
  caps.kind = AdapterKind::cpu;
  caps.subgroups = true;
  caps.subgroup_min_size = 8;
  caps.subgroup_max_size = 8;
  caps.max_storage_buffers = 16;
  caps.max_invocations_per_workgroup = 1024;
  caps.max_workgroup_bytes = 32768;
  return caps;
}

Caps card() {
  Caps caps = lavapipe();
  caps.kind = AdapterKind::discrete;
  caps.memory_bytes = uint64_t{16} << 30;
  return caps;
}

Caps measured(Caps caps, double gflops, double gbps) {
  caps.measured = {.product_gflops = gflops,
                   .memory_gbps = gbps,
                   .cache_gbps = 2 * gbps,
                   .dispatch_ns = 3000,
                   .roundtrip_ns = 50000};
  return caps;
}

TEST(CalibratedRates, AreWhatWasMeasured) {
  for (const Caps& caps : {lavapipe(), card()}) {
    const Rates r = rates_of(measured(caps, 5000, 100));
    EXPECT_EQ(r.launch_ns, 3000);
    EXPECT_EQ(r.stream_bytes_per_ns, 100);
    EXPECT_EQ(r.cached_bytes_per_ns, 200);
    const Rates twice = rates_of(measured(caps, 10000, 100));
    EXPECT_DOUBLE_EQ(twice.flops_per_ns, 2 * r.flops_per_ns);
    EXPECT_LT(stream_ns(r, 1e6), stream_ns(r, 1e7));
    // 64 MiB are beyond the caches, 64 KiB are not.
    EXPECT_DOUBLE_EQ(stream_ns(r, 64 << 20), (64 << 20) / 100.0);
    EXPECT_DOUBLE_EQ(stream_ns(r, 64 << 10), (64 << 10) / 200.0);
  }
}

TEST(CalibratedRates, AreEstimatesWithoutACalibration) {
  const Rates cpu = rates_of(lavapipe());
  EXPECT_EQ(cpu.flops_per_ns, 24);
  EXPECT_EQ(cpu.bytes_per_ns, 64);
  EXPECT_EQ(cpu.dispatch_ns, 5000);
  EXPECT_GT(cpu.stream_bytes_per_ns, 0);
  const Rates gpu = rates_of(card());
  EXPECT_EQ(gpu.flops_per_ns, 8000);
  EXPECT_EQ(gpu.stream_bytes_per_ns, gpu.bytes_per_ns);
}

TEST(CalibratedRates, ComeFromTheCalibrationOfTheOptions) {
  Caps caps = lavapipe();
  caps.adapter = some().device_name;
  const Target target = make_target(caps, {.calibration = some()});
  EXPECT_EQ(target.caps.measured, speed_of(some()));
  EXPECT_EQ(target.caps.measured.product_gflops, 1234.5);
  caps.adapter = "another card";
  EXPECT_SAYS(make_target(caps, {.calibration = some()}),
              "the calibration is of the adapter 'A (card) 9000', and the device is 'another card'");
}

// A machine whose cores are faster or slower chooses the same kernels: the rest of the rates are theirs too.
TEST(CalibratedRates, KeepTheChoicesOfACpu) {
  const Graph graph = materialize_views(optimize(models::bert_encoder({.layers = 1}, 1, 128), {}));
  const auto kernels = [&](Caps caps) {
    // What a dispatch takes with timestamps around it is no reason for other kernels.
    caps.measured.dispatch_ns *= 20;
    std::string out;
    Target target;
    target.caps = caps;
    for (const Dispatch& d : lower(graph, target).dispatches)
      out += formatted("{} {}\n", d.kernel->name, d.variant.text());
    return out;
  };
  const std::string usual = kernels(lavapipe());
  EXPECT_EQ(kernels(measured(lavapipe(), 12, 5)), usual);
  EXPECT_EQ(kernels(measured(lavapipe(), 100, 20)), usual);
  EXPECT_EQ(kernels(measured(lavapipe(), 100, 20)), kernels(measured(lavapipe(), 100, 20)));
}

// --- Costs ---

std::vector<double> predicted(const Graph& graph, const Caps& caps) {
  Target target;
  target.caps = caps;
  const Program program = lower(materialize_views(graph), target);
  return predicted_ns(rates_of(caps), program.dispatches);
}

double total(const Graph& graph, const Caps& caps) {
  double sum = 0;
  for (const double ns : predicted(graph, caps)) sum += ns;
  return sum;
}

Graph product(int64_t n) {
  Graph g;
  g.output("y", matmul(g.input("x", DType::f32, {n, n}), g.input("w", DType::f32, {n, n})));
  return g;
}

Graph copy(int64_t n) {
  Graph g;
  g.output("y", transpose(g.input("x", DType::f32, {n, n})));
  return g;
}

TEST(Cost, GrowsWithSizesAndShrinksWithSpeed) {
  for (const Caps& caps : {lavapipe(), card()}) {
    double before = 0;
    for (const int64_t n : {64, 256, 1024, 4096}) {
      const double now = total(product(n), measured(caps, 1000, 100));
      EXPECT_TRUE(std::isfinite(now));
      EXPECT_GT(now, before);
      before = now;
    }
    EXPECT_LT(total(product(2048), measured(caps, 2000, 100)),
              total(product(2048), measured(caps, 1000, 100)));
    EXPECT_LT(total(copy(4096), measured(caps, 1000, 200)), total(copy(4096), measured(caps, 1000, 100)));
  }
}

TEST(Cost, OfALargeProductIsItsArithmetic) {
  const double ns = total(product(1024), measured(lavapipe(), 50, 20));
  EXPECT_NEAR(ns / (2 * std::pow(1024.0, 3) / 50), 1, 0.3);
}

// Whatever is estimated, no dispatch is faster than its bytes.
TEST(Cost, IsAtLeastThatOfTheBytes) {
  Graph g;
  const Value x = g.input("x", DType::f32, {4096, 4096});
  g.output("y", -x);
  const Caps caps = measured(lavapipe(), 1e6, 10);
  EXPECT_GE(total(g, caps), 2 * 4 * 4096.0 * 4096 / 10);
  // A number that is broadcast is read once.
  Graph row;
  row.output("y", row.input("a", DType::f32, {4096, 4096}) + row.input("b", DType::f32, {4096}));
  EXPECT_LT(total(row, caps), 1.2 * total(g, caps));
}

// The dispatches that one choice makes share its estimate.
TEST(Cost, OfAChoiceCountsOnce) {
  Graph g;
  g.output("y", matmul(g.input("x", DType::f32, {64, 64}), g.input("w", DType::f32, {64, 4096})));
  Target target;
  target.caps = lavapipe();
  const Program whole = lower(materialize_views(g), target);
  ASSERT_EQ(whole.dispatches.size(), 1u);
  EXPECT_GE(whole.dispatches[0].choice, 0);
  EXPECT_GT(whole.dispatches[0].choice_ns, 0);
  std::vector<Dispatch> twice(2, whole.dispatches[0]);
  const Rates rates = rates_of(target.caps);
  EXPECT_EQ(predicted_ns(rates, twice)[1], 0);
  twice[1].choice = whole.dispatches[0].choice + 1;
  EXPECT_GT(predicted_ns(rates, twice)[1], 0);
}

}  // namespace
}  // namespace rlx::testing
