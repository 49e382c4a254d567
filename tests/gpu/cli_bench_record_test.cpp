// `rlx bench --report`, and what `--check` says about two of its files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/gpu/cli_harness.h"

namespace rlx::testing {
namespace {

using nlohmann::json;
using BenchRecords = CliTest;

TEST_F(BenchRecords, HaveTheAdapterTheChoicesAndTheTimes) {
  const std::string file = path("report.json");
  const CliResult r = rlx("bench add16 softmax --seconds 0.001 --report " + file);
  EXPECT_EQ(r.code, 0) << r.err;
  const json report = json::parse(slurp(file));
  EXPECT_FALSE(report.at("adapter").at("name").get<std::string>().empty());
  EXPECT_GT(report.at("adapter").at("limits").at("maxBufferSize"), 0);
  ASSERT_EQ(report.at("cases").size(), 2u);
  const json& softmax = report.at("cases")[1];
  EXPECT_EQ(softmax.at("case"), "softmax");
  EXPECT_GT(softmax.at("wall_ms"), 0);
  EXPECT_EQ(softmax.at("steps")[0].at("kernel"), "softmax");
  if (softmax.contains("device_ms")) {
    EXPECT_GT(softmax.at("steps")[0].at("device_us"), 0);
  }

  const CliResult again = rlx("bench --seconds 0.001 --check " + file);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(again.out.contains("softmax")) << again.out;
  EXPECT_TRUE(again.out.contains("the same")) << again.out;
  EXPECT_FALSE(again.out.contains("limit ")) << again.out;
}

TEST_F(BenchRecords, SayWhatDiffers) {
  const auto report = [&](const std::string& name, int64_t limit, double ms, const std::string& variant) {
    const json one = {{"case", "softmax"},
                      {"wall_ms", ms},
                      {"device_ms", ms / 2},
                      {"steps", {{{"node", "y"}, {"kernel", "softmax"}, {"variant", variant}}}}};
    return write(name, json{{"form", "rlx bench report 1"},
                            {"version", "0.2.0"},
                            {"adapter", {{"name", "card"}, {"limits", {{"maxBufferSize", limit}}}}},
                            {"cases", {one}}}
                           .dump());
  };
  const std::string a = report("a.json", 4, 1.0, "serial"), b = report("b.json", 8, 3.0, "subgroup");
  const CliResult r = rlx("bench --check " + a + " --with " + b);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("limit maxBufferSize: 4 then, 8 now")) << r.out;
  EXPECT_TRUE(r.out.contains("3.00")) << r.out;
  EXPECT_TRUE(r.out.contains("softmax serial then, softmax subgroup now")) << r.out;
}

TEST_F(BenchRecords, SayWhatIsWrong) {
  const std::string none = write("none.json", "{}");
  expect_complaint(rlx("bench --check " + none), 1, "none.json is no report");
  expect_complaint(rlx("bench --check " + path("gone.json")), 1, "gone.json");
  expect_complaint(rlx("bench --with " + none), 2, "--with is for --check");
  expect_complaint(rlx("bench add16 --check " + none + " --with " + none), 2, "nothing is measured");
  expect_complaint(rlx("bench --growth --report " + path("new.json")), 2, "--growth");
  const std::string empty =
      write("empty.json", R"({"form": "rlx bench report 1", "adapter": {}, "cases": []})");
  expect_complaint(rlx("bench --check " + empty + " --with " + empty), 1, "no case in common");
}

}  // namespace
}  // namespace rlx::testing
