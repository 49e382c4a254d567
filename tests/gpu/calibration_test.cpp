// Measuring a device, keeping the result, and predicting by it. No time decides anything here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "measure/cost_comparison.h"
#include "rlx/cost.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/reductions.h"
#include "tests/gpu/cli_harness.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class CalibrationTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    if (!full_device().caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  }

  // Next to nothing is measured.
  CalibrationOptions tiny() {
    return {.cache_dir = folder_.string(),
            .log = [this](const std::string& text) { told += text + "\n"; },
            .product_size = 32,
            .copy_bytes = 1 << 16,
            .warm_up = 0,
            .repeats = 1};
  }
  fs::path file() const { return folder_ / Calibration::file_name(full_device().info().name); }

  std::string told;
};

// As if it were the full device that was measured.
Calibration synthetic(double speed) {
  const AdapterInfo& info = full_device().info();
  return {.device_name = info.name,
          .backend = info.backend,
          .driver = info.driver,
          .sgemm_gflops = 50 * speed,
          .memory_bw_gbps = 10 * speed,
          .cache_bw_gbps = 20 * speed,
          .dispatch_ns = 5000 / speed,
          .submit_ns = 10000 / speed,
          .roundtrip_overhead_ns = 50000 / speed};
}

Graph layers(int64_t width) {
  Graph g;
  g.name = "layers";
  const Value x = g.input("x", DType::f32, {64, width});
  const Value h = gelu(matmul(x, g.param("w", DType::f32, {width, width})));
  g.output("y", softmax(h));
  return g;
}

// --- Measuring and keeping ---

TEST_F(CalibrationTest, IsMadeOnceAndKept) {
  const Calibration first = Calibration::load_or_measure(full_device(), tiny());
  EXPECT_EQ(first.device_name, full_device().info().name);
  EXPECT_EQ(first.driver, full_device().info().driver);
  for (const double number : {first.sgemm_gflops, first.memory_bw_gbps, first.cache_bw_gbps,
                              first.dispatch_ns, first.submit_ns, first.roundtrip_overhead_ns}) {
    EXPECT_TRUE(std::isfinite(number));
    EXPECT_GT(number, 0);
  }
  ASSERT_TRUE(fs::exists(file()));
  EXPECT_EQ(Calibration::from_json(slurp(file())), first);
  EXPECT_EQ(told, "");
  // What is in the file counts, whatever the device could be measured to be.
  const Calibration other = synthetic(1);
  other.save(folder_.string());
  EXPECT_EQ(Calibration::load_or_measure(full_device(), tiny()), other);
  EXPECT_EQ(Calibration::load(full_device(), tiny()), other);
  CalibrationOptions again = tiny();
  again.again = true;
  const Calibration second = Calibration::load_or_measure(full_device(), again);
  EXPECT_NE(second, other);
  EXPECT_EQ(Calibration::from_json(slurp(file())), second);
  EXPECT_EQ(told, "");
}

TEST_F(CalibrationTest, FilesThatDoNotFitArePassedOver) {
  const Calibration good = synthetic(1);
  const auto passed_over = [&](const std::string& text, const std::string& because) {
    write(file().filename().string(), text);
    told.clear();
    EXPECT_EQ(Calibration::load(full_device(), tiny()), std::nullopt) << text;
    EXPECT_TRUE(told.contains(file().string())) << told;
    EXPECT_TRUE(told.contains(because)) << told;
    const Calibration fresh = Calibration::load_or_measure(full_device(), tiny());
    EXPECT_EQ(Calibration::from_json(slurp(file())), fresh) << "it takes the place of the one that is wrong";
  };
  Calibration foreign = good;
  foreign.device_name = "another card";
  passed_over(foreign.to_json(), "of the adapter 'another card'");
  foreign = good;
  foreign.driver = "an older driver";
  passed_over(foreign.to_json(), "with the driver 'an older driver'");
  foreign = good;
  foreign.backend = "metal";
  passed_over(foreign.to_json(), "with metal");
  passed_over(good.to_json().substr(0, 100), "no JSON");
  passed_over("", "no JSON");
  passed_over("{}", "no 'version'");
  passed_over(std::string(1 << 20, ' '), "no JSON");
  // Without anybody to tell it to.
  write(file().filename().string(), "{");
  EXPECT_EQ(Calibration::load(full_device(), {.cache_dir = folder_.string()}), std::nullopt);
}

TEST_F(CalibrationTest, AFolderThatCannotBeWrittenIsNoError) {
  CalibrationOptions o = tiny();
  o.cache_dir = write("file", "x");
  EXPECT_GT(Calibration::load_or_measure(full_device(), o).sgemm_gflops, 0);
  EXPECT_TRUE(told.contains("cannot be written")) << told;
}

TEST_F(CalibrationTest, BudgetsAreChecked) {
  CalibrationOptions o = tiny();
  o.repeats = 0;
  EXPECT_SAYS(Calibration::measure(full_device(), o), "repeats is 0");
  o = tiny();
  o.product_size = -1;
  EXPECT_SAYS(Calibration::measure(full_device(), o), "product_size is -1");
}

TEST_F(CalibrationTest, DevicesAreOpenedWithTheirs) {
  DeviceOptions options;
  options.disk_cache = false;
  options.cache_dir = folder_.string();
  setenv("RLX_NO_CALIBRATION", "0", 1);
  EXPECT_EQ(Device::open(options).caps().measured, MeasuredSpeed());
  synthetic(2).save(folder_.string());
  EXPECT_EQ(Device::open(options).caps().measured.product_gflops, 100);
  EXPECT_EQ(Device::open_async(options).get().caps().measured.product_gflops, 100);
  write(file().filename().string(), "no JSON at all");
  EXPECT_EQ(Device::open(options).caps().measured, MeasuredSpeed());
  synthetic(2).save(folder_.string());
  setenv("RLX_NO_CALIBRATION", "1", 1);
  EXPECT_EQ(Device::open(options).caps().measured, MeasuredSpeed());
  setenv("RLX_NO_CALIBRATION", "0", 1);
  options.calibrated = false;
  EXPECT_EQ(Device::open(options).caps().measured, MeasuredSpeed());
  setenv("RLX_NO_CALIBRATION", "1", 1);
}

// --- Costs ---

double predicted_ns(const Graph& graph, double speed) {
  return predict_cost(graph, full_device(), {.calibration = synthetic(speed)}).ns();
}

TEST(Costs, ArePredictedNodeByNode) {
  const GraphCost cost = predict_cost(layers(256), full_device(), {.calibration = synthetic(1)});
  ASSERT_EQ(cost.nodes.size(), 2u);  // the product with its gelu, and the softmax
  double sum = 0;
  for (const NodeCost& n : cost.nodes) {
    EXPECT_TRUE(std::isfinite(n.ns)) << n.node;
    EXPECT_GT(n.ns, 0) << n.node;
    EXPECT_GE(n.dispatches, 1) << n.node;
    EXPECT_NE(n.kernel, "") << n.node;
    sum += n.ns;
  }
  EXPECT_EQ(cost.nodes[0].op, "matmul");
  EXPECT_EQ(cost.device_ns(), sum);
  EXPECT_EQ(cost.overhead_ns, 50000);
  EXPECT_EQ(cost.ns(), 50000 + sum);
}

TEST(Costs, GrowWithTheWorkAndShrinkWithTheSpeed) {
  EXPECT_LT(predicted_ns(layers(64), 1), predicted_ns(layers(512), 1));
  EXPECT_LT(predicted_ns(layers(512), 1), predicted_ns(layers(2048), 1));
  EXPECT_LT(predicted_ns(layers(512), 3), predicted_ns(layers(512), 1));
  EXPECT_EQ(predicted_ns(layers(512), 1), predicted_ns(layers(512), 1));
}

TEST(Costs, OfSymbolsNeedTheirValues) {
  Graph g;
  g.name = "open";
  g.output("y", exp(g.input("x", DType::f32, {"n", 64})));
  EXPECT_SAYS(predict_cost(g, full_device()), "the symbol 'n' of the graph 'open' has no value");
  const auto of = [&](int64_t n) {
    return predict_cost(g, full_device(), {.symbols = {{"n", n}}, .calibration = synthetic(1)}).ns();
  };
  EXPECT_LT(of(10), of(100000));
}

TEST(Costs, OfAnotherAdapterAreRefused) {
  Calibration foreign = synthetic(1);
  foreign.device_name = "another card";
  EXPECT_SAYS(predict_cost(layers(64), full_device(), {.calibration = foreign}), "'another card'");
  EXPECT_SAYS(compile(layers(64), full_device(), {.calibration = foreign}), "'another card'");
}

TEST(Costs, ChooseTheCheaperDevice) {
  const CalibratedDevice slow{full_device(), synthetic(1)};
  const CalibratedDevice fast{full_device(), synthetic(4)};
  const std::vector<CalibratedDevice> one_way = {slow, fast}, other_way = {fast, slow};
  EXPECT_EQ(choose_device(layers(256), one_way), 1u);
  EXPECT_EQ(choose_device(layers(256), other_way), 0u);
  // What is fast at products may be far away: it is for large graphs.
  Calibration far = synthetic(1);
  far.sgemm_gflops = 5000;
  far.roundtrip_overhead_ns = 1e6;
  const std::vector<CalibratedDevice> near_and_far = {slow, {full_device(), far}};
  EXPECT_EQ(choose_device(layers(64), near_and_far), 0u);
  EXPECT_EQ(choose_device(layers(4096), near_and_far), 1u);
  EXPECT_SAYS(choose_device(layers(64), std::vector<CalibratedDevice>()), "no device to choose");
}

// Without being told how fast they are.
TEST_F(CalibrationTest, DevicesAreMeasuredToBeChosen) {
  DeviceOptions options;
  options.cache_dir = folder_.string();
  options.disk_cache = false;
  Calibration slow = synthetic(1);
  slow.save(folder_.string());  // else it would take a second
  const std::vector<Device> devices = {Device::open(options)};
  EXPECT_EQ(choose_device(layers(64), devices), 0u);
}

TEST(CostComparison, TakesTheLeastOfEachDispatch) {
  GraphCost predicted{.nodes = {{.node = "a", .op = "matmul", .kernel = "k", .variant = "", .ns = 900},
                                {.node = "b", .op = "exp", .kernel = "k", .variant = "", .ns = 100},
                                {.node = "c", .op = "exp", .kernel = "k", .variant = "", .ns = 50}},
                      .overhead_ns = 10};
  const auto at = [](const char* node, int64_t step, uint64_t begin, uint64_t ns) {
    return DispatchReport{
        .node = node, .kernel = "k", .variant = "", .begin_ns = begin, .end_ns = begin + ns, .step = step};
  };
  // `a` has two dispatches, `b` is in a loop that is gone through twice, `c` does not run.
  const std::vector<std::vector<DispatchReport>> runs = {
      {at("a", 0, 0, 700), at("a", 1, 700, 500), at("b", 2, 1200, 10), at("b", 2, 1300, 30)},
      {at("a", 0, 0, 600), at("a", 1, 700, 900), at("b", 2, 1200, 40), at("b", 2, 1300, 40)}};
  const measure::CostComparison c = measure::compare_cost(predicted, runs, 5000);
  ASSERT_EQ(c.nodes.size(), 3u);
  EXPECT_EQ(c.nodes[0].predicted.node, "a");
  EXPECT_EQ(c.nodes[0].measured_ns, 1100);
  EXPECT_EQ(c.nodes[1].measured_ns, 20);
  EXPECT_EQ(c.nodes[1].ratio(), 5);
  EXPECT_EQ(c.nodes[2].measured_ns, 0);
  EXPECT_EQ(c.measured_ns, 1120);
  EXPECT_EQ(c.large(), 2);
  EXPECT_EQ(c.large_within_two(), 1);
}

// --- The commands ---

constexpr const char* kModel = R"(graph layers {
  %x = input : f32[batch, 64]
  %w = param : f32[64, 32]
  %m = matmul(%x, %w)
  %y = softmax(%m)
  output y = %y
}
)";

class CostCli : public CalibrationTest {
 protected:
  CliResult kept(const std::string& arguments) {
    return rlx(arguments, formatted("RLX_NO_CALIBRATION=0 RLX_CACHE_DIR='{}'", folder_.string()));
  }
};

TEST_F(CostCli, CalibratesOnce) {
  const CliResult first = kept("calibrate --json");
  ASSERT_EQ(first.code, 0) << first.err;
  const json measured = json::parse(first.out);
  EXPECT_EQ(measured.at("measured_now"), true);
  EXPECT_GT(measured.at("sgemm_gflops"), 0);
  const CliResult second = kept("calibrate");
  EXPECT_EQ(second.code, 0) << second.err;
  for (const char* part : {"GFLOP/s", "GB/s", "round trip", "measured before"})
    EXPECT_TRUE(second.out.contains(part)) << part << second.out;
  EXPECT_EQ(second.err, "");
  write(file().filename().string(), "broken");
  const CliResult third = kept("calibrate");
  EXPECT_EQ(third.code, 0) << third.err;
  EXPECT_TRUE(third.err.contains("is passed over: the text is no JSON")) << third.err;
  EXPECT_TRUE(third.out.contains("measured now")) << third.out;
  EXPECT_EQ(std::ranges::count(third.err, '\n'), 1) << third.err;
}

TEST_F(CostCli, PredictsAndCompares) {
  synthetic(1).save(folder_.string());
  const std::string model = write("layers.rlx", kModel) + " --dim batch=8";
  const CliResult r = kept("cost " + model + " --repeat 2");
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* part : {"predicted ms", "measured ms", "ratio", "softmax", "a run", "a factor of 2"})
    EXPECT_TRUE(r.out.contains(part)) << part << r.out;
  const json told = json::parse(kept("cost " + model + " --repeat 2 --json").out);
  EXPECT_EQ(told.at("nodes").size(), 2u);
  EXPECT_GT(told.at("measured_run_ns"), 0);
  EXPECT_EQ(told.at("calibration").at("sgemm_gflops"), 50);
  const json predicted = json::parse(kept("cost " + model + " --predict-only --json").out);
  EXPECT_FALSE(predicted.contains("measured_ns"));
  EXPECT_EQ(predicted.at("predicted_ns"), told.at("predicted_ns"));
  EXPECT_TRUE(kept("cost add16 --predict-only").out.contains("predicted to take"));
}

TEST_F(CostCli, WrongCalls) {
  const std::string file = write("layers.rlx", kModel);
  expect_complaint(rlx("cost"), 2, "FILE");
  expect_complaint(rlx("cost " + file), 2, "--dim batch=N");
  expect_complaint(rlx("cost " + file + " --dim batch=2 --repeat 0"), 2, "--repeat is '0'");
  expect_complaint(rlx("cost add16 --dim n=3"), 2, "are for models");
  expect_complaint(rlx("cost decode"), 2, "another length in each run");
  expect_complaint(rlx("cost " + path("none.onnx")), 1, "none.onnx");
  expect_complaint(rlx("calibrate --rabbits"), 2, "--rabbits");
  expect_complaint(rlx("calibrate --adapter nobody"), 1, "nobody");
  for (const char* command : {"calibrate --help", "cost --help"})
    EXPECT_TRUE(rlx(command).out.contains("Examples:")) << command;
}

}  // namespace
}  // namespace rlx::testing
