// The program as its users call it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/format.h"
#include "ops/op_table.h"
#include "rlx/version.h"

namespace rlx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Result {
  int code = -1;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / formatted("rlx-cli-test-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string slurp(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  Result rlx(const std::string& arguments, const std::string& environment = "") {
    const fs::path out = folder_ / "stdout";
    const fs::path err = folder_ / "stderr";
    const std::string command = formatted("{} '{}' {} >'{}' 2>'{}' </dev/null", environment, RLX_CLI_PATH,
                                          arguments, out.string(), err.string());
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  }

  // One line that begins with `rlx: ` and has this in it.
  static void expect_complaint(const Result& r, int code, const std::string& part) {
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_TRUE(r.err.starts_with("rlx: ")) << r.err;
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.contains(part)) << r.err;
  }

  fs::path folder_;
};

constexpr const char* kSmall = R"(graph small {
  %x = input : f32[batch, 6]
  %w = param : f32[6, 4]
  %m = matmul(%x, %w)
  %y = relu(%m)
  output y = %y
}
)";

TEST_F(Cli, HelpAndVersion) {
  for (const char* arguments : {"--help", "devices --help", "ops --help", "plan --help", "run --help",
                                "bench --help", "demo --help"}) {
    const Result r = rlx(arguments);
    EXPECT_EQ(r.code, 0) << arguments;
    EXPECT_TRUE(r.out.contains("Examples:")) << arguments << r.out;
    EXPECT_EQ(r.err, "") << arguments;
  }
  EXPECT_EQ(rlx("--version").out, formatted("rlx {}\n", version()));
  EXPECT_EQ(formatted("{}.{}.{}", RLX_VERSION_MAJOR, RLX_VERSION_MINOR, RLX_VERSION_PATCH), version());
}

TEST_F(Cli, MisuseIsExitCodeTwo) {
  expect_complaint(rlx("devices --no-such-flag"), 2, "--no-such-flag");
  expect_complaint(rlx("frobnicate"), 2, "frobnicate");
  expect_complaint(rlx("plan"), 2, "FILE");
  expect_complaint(rlx("run"), 2, "FILE");
  expect_complaint(rlx("ops no_such_op"), 2, "no_such_op");
  expect_complaint(rlx("bench no_such_case"), 2, "no_such_case");
  expect_complaint(rlx("devices --limit binding=lots"), 2, "binding");
  expect_complaint(rlx("devices --limit rabbits=3"), 2, "rabbits");
  expect_complaint(rlx("devices --limit binding=1"), 2, "the minimum is 4096");
  expect_complaint(rlx("devices --limit buffers=0"), 2, "the minimum is 1");
  expect_complaint(rlx("devices --software --no-software"), 2, "--software");
  expect_complaint(rlx("demo --tokens 9999"), 2, "512 positions");
  expect_complaint(rlx("devices --backend nope"), 2, "--backend: the backend 'nope'");
  expect_complaint(rlx("demo --backend nope"), 2, "--backend: the backend 'nope'");
  expect_complaint(rlx("devices --json=5"), 2, "--json takes no value");
  expect_complaint(rlx("ops --json --markdown"), 2, "--markdown");
  const Result none = rlx("");
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(none.err.contains("rlx: a command is missing")) << none.err;
}

// A wrong number is quoted as it was given, with what it must be.
TEST_F(Cli, NumbersOutOfRange) {
  const std::string run = "run " + write("small.rlx", kSmall) + " --dim batch=2 ";
  for (const char* text : {"0", "-3", "x", "1.5", "99999999999999999999"}) {
    expect_complaint(rlx(run + "--repeat " + text), 2,
                     formatted("--repeat is '{}'; it must be a whole number from 1 to 2^63-1", text));
  }
  expect_complaint(rlx(run + "--random -1"), 2, "--random is '-1'; it must be a whole number from 0");
  expect_complaint(rlx("demo --layers 49"), 2, "--layers is '49'; it must be a whole number from 0 to 48");
  expect_complaint(rlx("demo --tokens 0"), 2, "--tokens is '0'; it must be a whole number from 1");
  for (const char* text : {"0", "-1", "x", "nan", "inf"}) {
    expect_complaint(rlx(formatted("bench add16 --seconds {}", text)), 2,
                     formatted("--seconds is '{}'; it must be a number above 0", text));
  }
  EXPECT_EQ(rlx("devices --adapter 0").code, 0);
}

TEST_F(Cli, BadDimsAndKernels) {
  const std::string file = write("small.rlx", kSmall);
  expect_complaint(rlx("plan " + file), 2, "--dim batch=N");
  expect_complaint(rlx("plan " + file + " --dim batch"), 2, "NAME=N");
  expect_complaint(rlx("plan " + file + " --dim batch=two"), 2, "'two' is not a whole number of at least 0");
  expect_complaint(rlx("plan " + file + " --dim batch=-1"), 2, "'-1' is not a whole number of at least 0");
  expect_complaint(rlx("plan " + file + " --dim batch=99999999999999999999"), 2, "below 2^63");
  expect_complaint(rlx("plan " + file + " --dim batch=4611686018427387904"), 2,
                   "--dim batch=4611686018427387904: node 'x'");
  expect_complaint(rlx("plan " + file + " --dim rows=2"), 2, "no symbol named 'rows'");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --dim batch=3"), 2, "twice");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --kernel matmul=warp"), 2, "'warp'");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --precision half"), 2, "exact, mixed and fast");
  EXPECT_EQ(rlx("plan " + file + " --dim batch=2 --precision mixed").code, 0);
  expect_complaint(rlx("plan " + file + " --dim batch=2 --kernel softmax=serial"), 0, "no dispatch uses it");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --limit buffers=1"), 1, "node");
}

TEST_F(Cli, FilesThatAreWrong) {
  expect_complaint(rlx("plan /no/such/file.rlx"), 1, "/no/such/file.rlx");
  expect_complaint(rlx("run " + folder_.string()), 1, "not a regular file");
  const std::string broken =
      write("broken.rlx", "graph g {\n  %x = input : f32[2]\n  %y = add(%x, %z)\n  output y = %y\n}\n");
  expect_complaint(rlx("plan " + broken), 1, "line 3");
  const std::string shapes = write(
      "shapes.rlx",
      "graph g {\n  %x = input : f32[2]\n  %b = input : f32[3]\n  %y = add(%x, %b)\n  output y = %y\n}\n");
  expect_complaint(rlx("plan " + shapes), 1, "line 4");
  expect_complaint(rlx("run " + write("empty.rlx", "")), 1, "line 1");
}

TEST_F(Cli, DevicesAsJson) {
  const Result r = rlx("devices --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json adapters = json::parse(r.out);
  ASSERT_FALSE(adapters.empty());
  EXPECT_TRUE(adapters[0].at("limits").at("maxStorageBufferBindingSize").is_number());
  EXPECT_TRUE(adapters[0].at("features").is_array());
  EXPECT_TRUE(rlx("devices").out.contains(adapters[0].at("name").get<std::string>()));
}

TEST_F(Cli, OpsAsJsonAndOneByOne) {
  const Result r = rlx("ops --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json ops = json::parse(r.out);
  EXPECT_EQ(ops.size(), op_table().all().size());
  for (const json& op : ops) {
    const OpInfo* info = op_table().find(op.at("name").get<std::string>());
    ASSERT_NE(info, nullptr) << op;
    EXPECT_EQ(op.at("formula"), info->formula);
    EXPECT_EQ(op.at("kernels"), info->variants);
    EXPECT_TRUE(op.at("types").is_array());
    EXPECT_EQ(op.at("expands"), info->make()->expands());
    EXPECT_EQ(op.at("gradient"), info->make()->has_gradient());
    EXPECT_FALSE(op.at("operands").empty()) << op;
    EXPECT_EQ(op.size(), 9u) << op;
  }
  const json softmax = json::parse(rlx("ops softmax --json").out);
  EXPECT_EQ(softmax.at(0).at("attributes"),
            json::array({{{"name", "axis"}, {"kind", "whole number"}, {"default", "-1"}}}));
  const json norm = json::parse(rlx("ops layer_norm --json").out);
  EXPECT_EQ(norm.at(0).at("operands").at(1), (json{{"name", "gamma"},
                                                   {"optional", true},
                                                   {"repeated", false},
                                                   {"reads_views", true},
                                                   {"reads_encoded", false}}));
  const json matmul = json::parse(rlx("ops matmul --json").out);
  EXPECT_EQ(matmul.at(0).at("operands").at(2), (json{{"name", "extra"},
                                                     {"optional", false},
                                                     {"repeated", true},
                                                     {"reads_views", true},
                                                     {"reads_encoded", false}}));
  const json gather = json::parse(rlx("ops gather --json").out);
  EXPECT_EQ(gather[0]["operands"][0]["reads_encoded"], true);
  EXPECT_EQ(gather[0]["operands"][1]["reads_encoded"], false);
  EXPECT_TRUE(rlx("ops").out.contains("q8_0, q4_k"));
  const json pad = json::parse(rlx("ops pad --json").out);
  EXPECT_EQ(pad.at(0).at("attributes").at(2), (json{{"name", "mode"},
                                                    {"kind", "text"},
                                                    {"default", "\"constant\""},
                                                    {"words", {"constant", "reflect", "edge", "wrap"}}}));
  for (const auto& [name, info] : op_table().all()) EXPECT_TRUE(r.out.contains("\"" + name + "\""));
  const Result one = rlx("ops matmul");
  EXPECT_EQ(one.code, 0);
  EXPECT_TRUE(one.out.contains(op_table().find("matmul")->formula)) << one.out;
  const Result attention = rlx("ops attention");
  EXPECT_TRUE(attention.out.contains("operands  q, k, v, mask (optional)\n")) << attention.out;
  EXPECT_TRUE(attention.out.contains("one of \"none\", \"causal\", \"sliding_window\" ")) << attention.out;
}

TEST_F(Cli, ThePageOfOpsIsWhatTheProgramPrints) {
  const Result r = rlx("ops --markdown");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out == slurp(fs::path(RLX_SOURCE_DIR) / "docs/ops.md"))
      << "docs/ops.md is not up to date; make it with: ./rlx ops --markdown > docs/ops.md";
}

TEST_F(Cli, PlanAsJson) {
  const std::string file = write("small.rlx", kSmall);
  const Result r = rlx("plan --json --dim batch=3 --kernel matmul=plain --no-optimize " + file);
  ASSERT_EQ(r.code, 0) << r.err;
  const json plan = json::parse(r.out);
  ASSERT_EQ(plan.at("dispatches").size(), 2u);
  EXPECT_EQ(plan["dispatches"][0].at("op"), "matmul");
  EXPECT_EQ(plan["dispatches"][0].at("variant"), "plain");
  EXPECT_GT(plan["dispatches"][0].at("bytes").get<int64_t>(), 0);
  EXPECT_EQ(plan.at("memory").at("weight_bytes"), 96);
  const Result text = rlx("plan " + file + " --print-graph --dim batch=3");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.contains("graph small {")) << text.out;
}

TEST_F(Cli, RunVerifiesEveryNode) {
  const std::string file = write("small.rlx", kSmall);
  for (const char* flags :
       {"", "--no-optimize", "--limit binding=64K,buffers=8,workgroups=64,no-f16,no-subgroups"}) {
    const Result r = rlx("run " + file + " --random 3 --dim batch=5 --verify " + flags);
    EXPECT_EQ(r.code, 0) << r.err << r.out;
    EXPECT_TRUE(r.out.contains("f32[5, 4]")) << r.out;
    EXPECT_TRUE(r.out.contains("with the reference")) << r.out;
  }
  const auto values = [&] {
    const std::string out = rlx("run " + file + " --dim batch=5").out;
    return out.substr(0, out.find("compile"));  // times differ
  };
  EXPECT_EQ(values(), values()) << "the same seed gives the same values";
}

TEST_F(Cli, RunTellsTheFirstNan) {
  const std::string file =
      write("nan.rlx",
            "graph g {\n  %x = input : f32[8]\n  %r = relu(%x)\n  %l = log(%r)\n  %z = mul(%l, 0)\n"
            "  output z = %z\n}\n");
  const Result r = rlx("run " + file + " --no-optimize --nan-trace --dump-nodes");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("first NaN or infinity: l (log)")) << r.out;
  EXPECT_TRUE(r.out.contains("input r (relu)")) << r.out;
  EXPECT_TRUE(r.out.contains("non-zero")) << r.out;
}

TEST_F(Cli, RunWritesATrace) {
  const std::string file = write("small.rlx", kSmall);
  const std::string trace = (folder_ / "trace.json").string();
  const Result r = rlx("run " + file + " --dim batch=5 --profile --trace " + trace);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("share")) << r.out;
  EXPECT_FALSE(json::parse(slurp(trace)).at("traceEvents").empty());
}

TEST_F(Cli, EnvironmentFlagsAct) {
  const std::string file = write("small.rlx", kSmall);
  const std::string call = "run " + file + " --dim batch=5 --repeat 2 --no-optimize";
  const std::string trace = (folder_ / "env.json").string();
  const Result r =
      rlx(call,
          "RLX_WGPU_SCHEDULE=1 RLX_WGPU_NAN_TRACE=1 RLX_WGPU_DUMP_NODES=1 RLX_WGPU_DUMP_NODES_LIMIT=1 "
          "RLX_TRACE_PERFETTO='" +
              trace + "'");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("2 dispatches per run")) << r.out;
  EXPECT_TRUE(r.out.contains("no NaN and no infinity")) << r.out;
  EXPECT_TRUE(r.out.contains("matmul")) << r.out;
  EXPECT_EQ(json::parse(slurp(trace)).at("traceEvents").size(),
            1u + 2 * 2);  // a title, two runs of two dispatches
  expect_complaint(rlx(call, "RLX_KERNELS=matmul=warp"), 1, "no kernel 'warp'");
  expect_complaint(rlx(call, "RLX_PRECISION=half"), 1, "RLX_PRECISION: the precision 'half' is not one of");
  expect_complaint(rlx(call, "WGPU_BACKEND=no_such_backend"), 1, "no_such_backend");
  const Result zeros = rlx(call, "RLX_BENCH_DISPATCH_ONLY=1");
  EXPECT_TRUE(zeros.out.contains("min 0, max 0, mean 0")) << zeros.out;
}

// What ONNX Runtime gives for the ops of com.microsoft (tests/fixtures/make_onnx_microsoft.py).
TEST_F(Cli, ConformanceWithOnnxRuntime) {
  const std::string fixtures = RLX_SOURCE_DIR "/tests/fixtures/onnx";
  const std::string report = (folder_ / "report.json").string();
  const Result r = rlx("conformance " + fixtures + " --suite microsoft --json " + report);
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  const auto folders = std::distance(fs::directory_iterator(fixtures + "/microsoft"), {});
  EXPECT_GE(folders, 100);
  EXPECT_EQ(json::parse(slurp(report)).at("microsoft").at("passed"), folders) << r.out;
  expect_complaint(rlx("conformance " + fixtures + " --suite node"), 2, "the suites are: microsoft");
}

}  // namespace
}  // namespace rlx
