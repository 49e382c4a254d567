// `rlx gpu-report`: its call, one of its devices, and what becomes of a compiler that fails. Here a script
// pretends to be the process in which a device's compiler runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "measure/compiler_report.h"
#include "rlx/error.h"
#include "tests/gpu/cli_harness.h"

namespace rlx::testing {
namespace {

using nlohmann::json;

class GpuReport : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    try {
      static_cast<void>(measure::environment_of(*measure::find_simulated_gpu("m1")));
    } catch (const Error& e) {
      GTEST_SKIP() << "missing: " << e.what();
    }
  }
};

TEST_F(CliTest, GpuReportSaysWhatIsWrongInItsCall) {
  expect_complaint(rlx("gpu-report --device geforce"), 2,
                   "there is no device 'geforce'; the devices are: rdna3,");
  expect_complaint(rlx("gpu-report no_such_case --device m1"), 2, "no case, network or file 'no_such_case'");
  expect_complaint(rlx("gpu-report add16 --dim n=3"), 2, "are for models");
  expect_complaint(rlx("gpu-report --environment"), 2, "one --device");
}

TEST_F(GpuReport, HasARowForEachModule) {
  const CliResult r = rlx("gpu-report add16 softmax --device m1 --json");
  EXPECT_EQ(r.code, 0) << r.err;
  const json report = json::parse(r.out);
  ASSERT_EQ(report.at("devices").size(), 1u);
  EXPECT_EQ(report.at("devices")[0].at("device"), "m1");
  ASSERT_EQ(report.at("modules").size(), 2u);
  EXPECT_EQ(report.at("modules")[0].at("kernel"), "elementwise");
  const json& softmax = report.at("modules")[1];
  EXPECT_EQ(softmax.at("case"), "softmax");
  EXPECT_GT(softmax.at("registers"), 0);
  EXPECT_GT(softmax.at("instructions"), 0);
  EXPECT_GT(softmax.at("compile_ms"), 0);
  EXPECT_FALSE(softmax.contains("workgroup_bytes")) << "the driver does not say it";
  const CliResult table = rlx("gpu-report add16 --device m1");
  EXPECT_TRUE(table.out.contains("Apple M1 (")) << table.out;
  EXPECT_TRUE(table.out.contains("1 module: 0 spill to memory, 0 fail")) << table.out;
}

TEST_F(GpuReport, TellsTheEnvironmentOfADevice) {
  const CliResult r = rlx("gpu-report --device rdna3 --environment");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("AMDGPU_GPU_ID=navi31\n")) << r.out;
  EXPECT_TRUE(r.out.contains("LD_PRELOAD=/")) << r.out;
  EXPECT_TRUE(r.out.contains("RADV_DEBUG=shaderstats\n")) << r.out;
}

// Buffers of RADV have less than 4 GiB.
TEST_F(GpuReport, WhatCannotBePlannedFails) {
  const std::string graph = write("large.rlx",
                                  "graph large {\n  %x = input : f32[1200000000]\n  %y = neg(%x)\n"
                                  "  output y = %y\n}\n");
  const CliResult r = rlx("gpu-report " + graph + " --device rdna3");
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(r.out.contains("cannot be planned for AMD RX 7900 XTX")) << r.out;
  EXPECT_TRUE(r.err.contains("1 fail")) << r.err;
}

TEST_F(GpuReport, AModuleThatFailsIsARow) {
  const std::string program = write("compiler", R"(#!/bin/sh
echo 'a driver prints this'
echo '@rlx {"adapter": "A", "driver": "D", "modules": [{"kernel": "k0", "node": "n", "dispatches": 3}, {"kernel": "k1"}, {"kernel": "k2"}, {"kernel": "k3"}, {"kernel": "k4"}]}'
while read number; do
  case $number in
    1) sleep 20 ;;
    2) echo 'register 7 is gone' >&2; kill -ABRT $$ ;;
    3) echo '@rlx {"failure": "does not compile: line 3", "statistics": {}}' ;;
    *) echo '@rlx {"failure": "", "compile_ms": 1.5, "statistics": {"registers": 48}}' ;;
  esac
done
)");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const measure::CompilerReport report = measure::compile_on(
      *measure::find_simulated_gpu("m1"), {"case"}, [](const std::string&) {}, {.seconds = 0.5}, program);
  EXPECT_TRUE(report.failed());
  EXPECT_EQ(report.adapter, "A");
  ASSERT_EQ(report.modules.size(), 5u);
  EXPECT_EQ(report.modules[0].dispatches, 3);
  EXPECT_EQ(report.modules[0].failure, "");
  EXPECT_EQ(report.modules[0].statistics.registers, 48);
  EXPECT_TRUE(report.modules[1].failure.contains("takes more than")) << report.modules[1].failure;
  EXPECT_TRUE(report.modules[2].failure.contains("signal 6")) << report.modules[2].failure;
  EXPECT_TRUE(report.modules[2].failure.contains("register 7 is gone")) << report.modules[2].failure;
  EXPECT_EQ(report.modules[3].failure, "does not compile: line 3");
  EXPECT_EQ(report.modules[4].failure, "");
}

}  // namespace
}  // namespace rlx::testing
