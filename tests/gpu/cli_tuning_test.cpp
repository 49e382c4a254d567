// `rlx tune`, and what `rlx plan` says about it; times decide nothing here.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tests/gpu/cli_harness.h"

namespace rlx {
namespace {

using nlohmann::json;
using Result = testing::CliResult;

class CliTuning : public testing::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    model_ = write("product.rlx",
                   "graph product {\n  %x = input : f32[8, 40]\n  %w = param : f32[40, 48]\n"
                   "  %y = matmul(%x, %w)\n  output y = %y\n}\n");
  }
  Result call(const std::string& arguments, const std::string& environment = "RLX_NO_TUNE=0") {
    return rlx(arguments, formatted("{} RLX_CACHE_DIR='{}'", environment, path("cache")));
  }

  std::string model_;
};

TEST_F(CliTuning, MeasuresOnceAndIsUsedFromThenOn) {
  const std::string tune = formatted("tune {} --seconds 0.001 --candidates 3 --all", model_);
  const Result first = call(tune);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(first.out.contains("1 problem measured, 0 known before")) << first.out;
  EXPECT_TRUE(first.out.contains("static choice")) << first.out;
  EXPECT_EQ(first.err, "");
  const Result second = call(tune + " --json");
  ASSERT_EQ(second.code, 0) << second.err;
  const json report = json::parse(second.out);
  EXPECT_EQ(report["measured"], 0);
  EXPECT_EQ(report["problems"][0]["left"], "known");
  EXPECT_EQ(report["records"], path("cache/tuning.json"));

  const Result plan = call("plan " + model_);
  EXPECT_TRUE(plan.out.contains("measurement, ")) << plan.out;
  const json steps = json::parse(call(formatted("plan {} --json", model_)).out)["dispatches"];
  EXPECT_EQ(steps[0]["reason"], "measurement");
  EXPECT_EQ(steps[0]["expected_ns"], report["problems"][0]["tuned_ns"]);
  EXPECT_TRUE(call("plan " + model_, "RLX_NO_TUNE=1").out.contains("estimate, "));
  EXPECT_TRUE(call(formatted("plan {} --kernel matmul=plain", model_)).out.contains("force, "));
}

TEST_F(CliTuning, WritesAFileToShip) {
  const Result r = call(
      formatted("tune {} --seconds 0.001 --candidates 2 --all --records {}", model_, path("shipped.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(call("plan " + model_).out.contains("estimate, "));
  const std::string shipped = formatted("RLX_NO_TUNE=0 RLX_TUNING_FILES='{}'", path("shipped.json"));
  EXPECT_TRUE(call("plan " + model_, shipped).out.contains("measurement, "));
}

TEST_F(CliTuning, RefusesWhatMakesNoSense) {
  expect_complaint(call("tune " + model_, "RLX_NO_TUNE=1"), 2, "RLX_NO_TUNE");
  EXPECT_EQ(call("tune").code, 2);
  EXPECT_EQ(call(formatted("tune {} --candidates 1", model_)).code, 2);
  expect_complaint(call(formatted("tune {} --seconds 0", model_)), 2, "--seconds");
  expect_complaint(call(formatted("tune {} --records {}", model_, folder_.string())), 2, "folder");
  expect_complaint(call(formatted("tune {} --records -", model_)), 2, "--records");
  expect_complaint(call(formatted("tune {} --records {}/x.json", model_, model_)), 2, "cannot be written");
  std::ofstream(folder_ / "package.json") << "{\"name\": \"not ours\"}";
  expect_complaint(call(formatted("tune {} --records {}", model_, path("package.json"))), 2,
                   "not overwritten");
  expect_complaint(call(formatted("tune {} --records /dev/zero", model_)), 2, "no regular file");
  // A cache folder that is a file.
  expect_complaint(rlx("tune " + model_, formatted("RLX_NO_TUNE=0 RLX_CACHE_DIR='{}'", model_)), 1,
                   "cannot be written");
  expect_complaint(call("tune " + path("none.rlx")), 1, "none.rlx");
}

}  // namespace
}  // namespace rlx
