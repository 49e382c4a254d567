// The program as its users call it.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/format.h"
#include "import/npy.h"
#include "import/onnx/model_file.h"
#include "ops/op_table.h"
#include "rlx/npy.h"
#include "rlx/version.h"
#include "tests/gpu/cli_harness.h"
#include "tests/support/full.h"
#include "tests/support/onnx_model.h"

namespace rlx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

using Result = testing::CliResult;
class Cli : public testing::CliTest {};

constexpr const char* kSmall = R"(graph small {
  %x = input : f32[batch, 6]
  %w = param : f32[6, 4]
  %m = matmul(%x, %w)
  %y = relu(%m)
  output y = %y
}
)";

TEST_F(Cli, HelpAndVersion) {
  for (const char* arguments :
       {"--help", "devices --help", "ops --help", "info --help", "plan --help", "run --help",
        "profile --help", "verify --help", "convert --help", "bench --help", "ocr --help",
        "transcribe --help", "spectrogram --help", "demo --help"}) {
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
  expect_complaint(rlx("demo bert --tokens 9999"), 2, "512 positions");
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
  expect_complaint(rlx("run " + write("empty.rlx", "")), 1, "empty.rlx: the file is empty");
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
    EXPECT_EQ(op.at("operands").empty(), op.at("name") == "range" || op.at("name") == "eye") << op;
    EXPECT_EQ(op.at("host"), false) << op;  // every op has kernels, is a view or is made of ops that have
    EXPECT_EQ(op.size(), 10u) << op;
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
  EXPECT_TRUE(attention.out.contains("operands  q, k, v, mask (optional), lengths (optional)"))
      << attention.out;
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

constexpr auto kNodeTests = "/usr/share/libonnx-testdata/data/node/";  // Debian's libonnx-testdata

// ONNX's own tests: of the nodes every fifth, of models the small ones; all with --full. None may be wrong,
// and no more may be refused than today.
TEST_F(Cli, ConformanceWithOnnx) {
  if (!fs::exists(kNodeTests)) GTEST_SKIP() << "Debian's libonnx-testdata is not installed";
  const std::string report = (folder_ / "report.json").string();
  const Result nodes =
      rlx("conformance --suite node --json " + report + (testing::full_run() ? "" : " --every 5"));
  EXPECT_EQ(nodes.code, 0) << nodes.out << nodes.err;
  const json node = json::parse(slurp(report)).at("node");
  EXPECT_EQ(node.at("wrong"), 0) << nodes.out;
  EXPECT_GE(node.at("passed").get<double>(), 0.83 * node.at("total").get<double>()) << nodes.out;
  for (const char* const suite : {"pytorch-converted", "pytorch-operator", "light"}) {
    if (suite == std::string_view("light") && !testing::full_run()) continue;
    const Result r = rlx(std::string("conformance --suite ") + suite + " --json " + report);
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    const json all = json::parse(slurp(report)).at(suite);
    EXPECT_EQ(all.at("passed"), all.at("total")) << r.out;
  }
}

// What ONNX Runtime gives for the ops of com.microsoft, and for recurrent networks with what ONNX's own tests
// lack (tests/fixtures/make_onnx_microsoft.py, make_recurrent.py).
TEST_F(Cli, ConformanceWithOnnxRuntime) {
  const std::string fixtures = RLX_SOURCE_DIR "/tests/fixtures/onnx";
  const std::string report = (folder_ / "report.json").string();
  for (const auto& [suite, least] :
       {std::pair("microsoft", 112), std::pair("quantised", 45), std::pair("recurrent", 9)}) {
    const Result r = rlx(formatted("conformance {} --suite {} --json {}", fixtures, suite, report));
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    const auto folders = std::distance(fs::directory_iterator(formatted("{}/{}", fixtures, suite)), {});
    EXPECT_GE(folders, least);
    EXPECT_EQ(json::parse(slurp(report)).at(suite).at("passed"), folders) << r.out;
  }
  expect_complaint(rlx("conformance " + fixtures + " --suite node"), 2,
                   "the suites are: architectures, microsoft");
}

// --- ONNX models ---

using Type = onnx::ElementType;

Tensor pattern(std::vector<int64_t> shape, double scale) {
  std::vector<double> values(static_cast<size_t>(Shape(shape).elements().value()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<double>(i * 7 % 11) - 2;
  return Tensor::from_doubles(DType::f32, std::move(shape), values);
}

// x[batch, 4] @ w, and that above zero; the names of the outputs make one file name.
std::string linear_model() {
  testing::OnnxModel model(17);
  model.graph.input("x", {"batch", 4}, Type::float32);
  model.graph.initializer("w", pattern({4, 32}, 0.25));
  model.graph.node("MatMul", {"x", "w"}, {"out/y:0"});
  model.graph.node("Relu", {"out/y:0"}, {"out_y_0"});
  model.graph.output("out/y:0", Type::float32);
  model.graph.output("out_y_0", Type::float32);
  return model.text();
}

// One input of each type that is carried in another.
std::string carried_model() {
  testing::OnnxModel model;
  const std::pair<const char*, Type> types[] = {
      {"int16", Type::int16}, {"uint16", Type::uint16}, {"uint64", Type::uint64}, {"double", Type::float64}};
  for (const auto& [name, type] : types) {
    model.graph.input(name, {2}, type);
    model.graph.node("Add", {name, name}, {std::string("twice_") + name});
    model.graph.output(std::string("twice_") + name, type);
  }
  return model.text();
}

TEST_F(Cli, InfoOfAModel) {
  const std::string file = write("linear.onnx", linear_model());
  const Result r = rlx("info " + file);
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* part : {"a test 1.5", "ai.onnx 17", "x: float[batch, 4]", "out/y:0: float", "128, 512 B",
                           "MatMul      1", "everything in it can run"}) {
    EXPECT_TRUE(r.out.contains(part)) << part << "\n" << r.out;
  }
  const Result as_json = rlx("info --json - " + file);
  ASSERT_EQ(as_json.code, 0) << as_json.err;
  const json info = json::parse(as_json.out);
  EXPECT_EQ(info.at("format"), "onnx");
  EXPECT_EQ(info.at("ops"), (json{{"MatMul", 1}, {"Relu", 1}}));
  EXPECT_EQ(info.at("parameters"), 128);
  EXPECT_EQ(info.at("opsets"), (json{{"", 17}}));
  EXPECT_TRUE(info.at("problems").empty());
  EXPECT_EQ(rlx("info " + file + " --json " + path("info.json")).out, r.out);
  EXPECT_EQ(json::parse(slurp(path("info.json"))), info);

  // A graph text has the same, as far as it can.
  const json text = json::parse(rlx("info --json - " + write("small.rlx", kSmall)).out);
  EXPECT_EQ(text.at("inputs"), (json{"x: f32[batch, 6]"}));
  EXPECT_EQ(text.at("ops"), (json{{"matmul", 1}, {"relu", 1}}));
  EXPECT_EQ(text.at("bytes"), 96);
}

TEST_F(Cli, InfoNamesEveryNodeThatCannotRun) {
  testing::OnnxModel model;
  model.graph.input("x", {4}, Type::float32);
  model.graph.node("Frobnicate", {"x"}, {"a"});
  model.graph.node("Whirl", {"a"}, {"b"}, {}, "ai.onnx.ml");  // also behind another one
  model.graph.output("a", Type::float32);
  model.graph.output("b", Type::float32);
  const std::string file = write("odd.onnx", model.text());
  const json problems = json::parse(rlx("info --json - " + file).out).at("problems");
  ASSERT_EQ(problems.size(), 2u) << problems;
  EXPECT_EQ(problems[0].at("op"), "Frobnicate");
  EXPECT_EQ(problems[1].at("op"), "ai.onnx.ml.Whirl");
  EXPECT_TRUE(
      rlx("info " + file).out.contains("  Frobnicate: there is no such op here yet\n    1 node: a\n"));
  const Result r = rlx("run " + file);
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(r.err.contains("2 nodes cannot be imported") && r.err.contains("b (ai.onnx.ml.Whirl)"))
      << r.err;
  // Nor is a set of ops that is too new a reason to say nothing.
  testing::OnnxModel next(99);
  next.graph.input("x", {4}).node("Relu", {"x"}, {"y"}).output("y");
  const json future = json::parse(rlx("info --json - " + write("next.onnx", next.text())).out);
  EXPECT_TRUE(future.at("problems")[0].at("reason").get<std::string>().contains("version 99 ")) << future;
}

TEST_F(Cli, RunReadsAndWritesFiles) {
  const std::string file = write("linear.onnx", linear_model());
  const Tensor x = pattern({3, 4}, 0.5);
  const Result r = rlx("run " + file + " --input x=" + write("x.npy", x) + " --output-dir " + path("a/b"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("f32[3, 32]")) << r.out;
  // The plain name stays; the other one, which would leave the folder, gets a number.
  const Tensor relu = read_npy(path("a/b/out_y_0.npy"));
  const Tensor y = read_npy(path("a/b/out_y_0_2.npy"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "a/b"), {}), 2);
  ASSERT_EQ(y.shape(), (std::vector<int64_t>{3, 32}));
  const Tensor w = pattern({4, 32}, 0.25);
  for (int64_t i = 0; i < y.elements(); ++i) {
    double want = 0;
    for (int64_t k = 0; k < 4; ++k) want += x.real(i / 32 * 4 + k) * w.real(k * 32 + i % 32);
    EXPECT_NEAR(y.real(i), want, 1e-5) << i;
    EXPECT_EQ(relu.real(i), std::max(y.real(i), 0.0)) << i;
  }
  EXPECT_EQ(rlx("run " + file + " --dim batch=2 --random 5").code, 0);
  EXPECT_TRUE(rlx("run " + file + " --dim batch=2")
                  .out.contains("1 of 2 inputs and params are given; random, with the seed 1: x"));
  // A file without the ending is known by what it holds.
  EXPECT_EQ(rlx("run " + write("linear", linear_model()) + " --dim batch=2").code, 0);
  EXPECT_EQ(rlx("run " + write("small", kSmall) + " --dim batch=2").code, 0);
  // And a graph text takes the same files.
  const Result text =
      rlx("run " + write("small.rlx", kSmall) + " --input x=" + write("x6.npy", pattern({2, 6}, 1)));
  EXPECT_TRUE(text.out.contains("f32[2, 4]")) << text.out << text.err;
}

TEST_F(Cli, CarriedTypesAreThoseOfTheFile) {
  const std::string file = write("carried.onnx", carried_model());
  const std::string inputs =
      " --input int16=" + write("i.npy", Tensor::of<int32_t>({2}, {-16000, 16383}), Type::int16) +
      " --input uint16=" + write("u.npy", Tensor::of<int64_t>({2}, {1, 32767})) +
      " --input uint64=" + write("w.npy", Tensor::of<uint32_t>({2}, {7, 0}), Type::uint64);
  const std::string doubles = write("d.npy", Tensor::of<float>({2}, {0.25f, -3}), Type::float64);
  const Result r =
      rlx("run " + file + inputs + " --input double=" + doubles + " --output-dir " + path("out"));
  ASSERT_EQ(r.code, 0) << r.err;
  const auto expect = [&](const std::string& name, std::string_view type, std::vector<double> want) {
    const NpyArray array = open_npy(path("out/twice_" + name + ".npy"));
    EXPECT_EQ(numpy_name(array.type), type);
    EXPECT_EQ(array.as(array.type).doubles(), want) << name;
  };
  expect("int16", "int16", {-32000, 32766});
  expect("uint16", "uint16", {2, 65534});
  expect("uint64", "uint64", {14, 0});
  expect("double", "float64", {0.5, -6});

  // What does not fit is named, and never wrapped.
  const auto with = [&](const std::string& name, const Tensor& value) {
    return rlx("run " + file + " --input " + name + "=" + write("bad.npy", value));
  };
  expect_complaint(
      with("int16", Tensor::of<int64_t>({2}, {0, 32768})), 2,
      "the input 'int16': " + path("bad.npy") + ": element 1 is 32768, which does not fit in int16");
  expect_complaint(with("uint64", Tensor::of<int64_t>({2}, {0, 1LL << 32})), 2, "element 1 is 4294967296");
  expect_complaint(with("uint16", Tensor::of<int64_t>({2}, {-1, 0})), 2, "element 0 is -1");
  const std::string large = write("large.npy", Tensor::of<uint32_t>({2}, {7, 1u << 30}), Type::uint64);
  expect_complaint(rlx("run " + file + " --random 1 --input uint64=" + large), 1,
                   "the node 'twice_uint64' computes an i64 that does not fit in 32 bits");
  expect_complaint(with("int16", Tensor::of<float>({2}, {0, 1})), 2,
                   "float32, which cannot be taken for int16");
  expect_complaint(rlx("run " + std::string(kNodeTests) + "test_gather_0/model.onnx --input indices=" +
                       write("wide.npy", Tensor::of<int64_t>({3}, {0, 1, 1LL << 40}))),
                   1, "element 2 is 1099511627776; i64 tensors are 32 bits wide");
}

TEST_F(Cli, InputsThatDoNotFit) {
  const std::string run = "run " + write("linear.onnx", linear_model());
  const std::string x = write("x.npy", pattern({3, 4}, 1));
  expect_complaint(rlx(run + " --input " + x), 2, "it must be NAME=FILE.npy or FILE.npz");
  expect_complaint(rlx(run + " --input x=arrays.npz"), 2, "names of their own: --input arrays.npz");
  expect_complaint(rlx(run + " --input y=" + x), 2, "the model has no input 'y'; its inputs are: x");
  expect_complaint(rlx(run + " --input x=" + x + " --input x=" + x), 2, "gives the input 'x' twice");
  expect_complaint(rlx(run + " --input x=" + write("ints.npy", Tensor::of<int64_t>({1, 4}, {1, 2, 3, 4}))), 2,
                   "its elements are int64, which cannot be taken for float32");
  expect_complaint(rlx(run + " --input x=" + write("five.npy", pattern({3, 5}, 1))), 2,
                   "the input 'x' has the shape [batch, 4], but " + path("five.npy") + " has [3, 5]");
  expect_complaint(rlx(run + " --input x=" + write("rank.npy", pattern({4}, 1))), 2, "has [4]");
  expect_complaint(rlx(run + " --input x=" + x + " --dim batch=2"), 2,
                   "the input 'x' makes the symbol 'batch' 3, but --dim makes it 2");
  expect_complaint(rlx(run + " --input x=" + x + " --dim rows=2"), 2,
                   "no symbol named 'rows'; it has: batch");
  expect_complaint(rlx(run), 2, "give --dim batch=N");
  expect_complaint(rlx(run + " --input x=" + path("none.npy")), 1, "none.npy' cannot be read");
  expect_complaint(rlx(run + " --input x=" + write("text.npy", std::string("hello"))), 1, "not an npy file");
  expect_complaint(rlx(run + " --input " + write("text.npz", std::string("hello"))), 1,
                   "not a whole zip file");
  expect_complaint(rlx(run + " --input " RLX_SOURCE_DIR "/tests/fixtures/npy.npz"), 2,
                   "the model has no input 'bool_");
  expect_complaint(rlx(run + " --input x=" + x + " --output-dir " + x + "/sub"), 1,
                   "cannot be made: Not a directory");
  expect_complaint(rlx(run + " --input x=" + x + " --output-dir " + x), 1, "cannot be made: ");
  expect_complaint(rlx(run + " --input x=" + x + " --output-dir /proc/none"), 1,
                   "'/proc/none' cannot be made: ");
}

// Whatever is wrong with its elements or its shape: both sides are named, and it is a wrong argument.
TEST_F(Cli, InputsOfAnotherTypeAreMisuse) {
  const auto npy = [&](const std::string& name, const std::string& type) {
    std::string header = formatted("{{'descr': {}, 'fortran_order': False, 'shape': (2, 32)}}", type);
    header.append(118 - header.size(), ' ');
    return write(name, formatted("\x93NUMPY\x01{}v{}{}", '\0', '\0', header));
  };
  const std::string run =
      "run " + write("plain.rlx", "graph g {\n  %x = input : f32[2, 32]\n  output y = %x\n}\n");
  const std::string strings = npy("strings.npy", "'<U4'");
  expect_complaint(
      rlx(run + " --input x=" + strings), 2,
      "the input 'x' is float32[2, 32], but " + strings + ": its elements are of the type '<U4'");
  const std::string records = npy("records.npy", "[('a', '<f4')]");
  expect_complaint(
      rlx(run + " --input x=" + records), 2,
      "the input 'x' is float32[2, 32], but " + records + ": its elements are records of fields");
  const std::string ints = write("ints.npy", Tensor::zeros(DType::i32, {2, 32}));
  expect_complaint(rlx(run + " --input x=" + ints), 2,
                   "the input 'x': " + ints + ": its elements are int32, which cannot be taken for float32");
  const std::string coded =
      "run " + write("coded.rlx", "graph g {\n  %x = input : q8_0[2, 32]\n  output y = %x\n}\n");
  const std::string floats = write("floats.npy", Tensor::zeros(DType::f32, {2, 32}));
  expect_complaint(rlx(coded + " --input x=" + floats), 2,
                   "the input 'x' is q8_0[2, 32], but " + floats + " has float32[2, 32]");
  const std::string sums =
      "run " +
      write("sums.rlx", "graph g {\n  %x = input : f32[n]\n  %z = input : f32[n+1]\n  output y = %z\n}\n");
  const std::string two = write("two.npy", Tensor::zeros(DType::f32, {2}));
  expect_complaint(rlx(sums + " --input x=" + two + " --input z=" + two), 2,
                   "the input 'z' has the shape [n+1], which is [3] here, but " + two + " has [2]");
}

TEST_F(Cli, InputsThatDecideAShape) {
  const std::string model = std::string(kNodeTests) + "test_reshape_reordered_all_dims/model.onnx";
  for (const char* command : {"run ", "plan ", "verify ", "bench "}) {
    const Result r = rlx(command + model);
    EXPECT_EQ(r.code, 2) << command;
    EXPECT_TRUE(r.err.contains("the value of the input 'shape'") && r.err.contains("--input NAME=FILE.npy"))
        << r.err;
  }
  const std::string given =
      model + " --input shape=" + write("shape.npy", Tensor::of<int64_t>({3}, {4, 2, 3}));
  EXPECT_TRUE(rlx("run " + given).out.contains("f32[4, 2, 3]"));
  EXPECT_EQ(rlx("verify " + given).code, 0);
  EXPECT_TRUE(rlx("info " + given).out.contains("everything in it can run"));
  EXPECT_EQ(rlx("convert " + given + " -o " + path("reshape.rlx")).code, 0);
  EXPECT_TRUE(slurp(path("reshape.rlx")).contains("f32[4, 2, 3]"));
}

// ONNX's own data, by way of files.
TEST_F(Cli, ATestOfOnnx) {
  const std::string folder = std::string(kNodeTests) + "test_add/";
  const auto tensor = [&](const std::string& name) {
    const auto bytes = std::make_shared<const FileBytes>(folder + "test_data_set_0/" + name);
    return onnx::TensorData(bytes, "").tensor(onnx::parse_tensor(bytes->bytes(), name));
  };
  const Result r =
      rlx(formatted("run {}model.onnx --input x={} --input y={} --output-dir {}", folder,
                    write("x.npy", tensor("input_0.pb")), write("y.npy", tensor("input_1.pb")), path("out")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(read_npy(path("out/sum.npy")), tensor("output_0.pb"));
}

TEST_F(Cli, VerifyComparesWithTheReference) {
  const std::string call = "verify " + write("linear.onnx", linear_model()) + " --dim batch=3";
  const Result r = rlx(call);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("with the reference") && r.out.contains("output out/y:0: largest error"))
      << r.out;
  // Outputs that are not read back are zeros, which is wrong.
  const Result wrong = rlx(call, "RLX_BENCH_DISPATCH_ONLY=1");
  EXPECT_EQ(wrong.code, 1) << wrong.out;
  EXPECT_TRUE(wrong.err.contains("output 'out/y:0' is wrong: element 0 of f32[3, 32] is 0 instead of"))
      << wrong.err;
}

// Bytes that are exponents are made near that of 1: small ones make weights that devices take for 0.
TEST_F(Cli, VerifyMakesScalesThatDevicesCanTell) {
  const std::string model = write("mxfp4.rlx", R"(graph mxfp4 {
  %x = input : f32[4, 64]
  %codes = param : u8[32, 32]
  %scale = param : u8[64]
  %by_block = reshape(%scale) {shape=[2, 32]}
  %y = dequant_matmul(%x, %codes, %by_block) {scheme="mxfp4", columns=32}
  %experts = param : u8[3, 8, 32]
  %scales = param : u8[3, 8, 2]
  %expert = constant {value=tensor i32[4] (2, 0, 1, 0)}
  %z = dequant_grouped_matmul(%x, %experts, %scales, none, %expert) {scheme="mxfp4"}
  output y = %y
  output z = %z
}
)");
  for (const char* seed : {"1", "2", "3"}) {
    const Result r = rlx("verify " + model + " --random " + seed);
    EXPECT_EQ(r.code, 0) << seed << ": " << r.out << r.err;
  }
}

TEST_F(Cli, ConvertKeepsTheOutputs) {
  const std::string model = write("linear.onnx", linear_model());
  const Result r = rlx("convert " + model + " -o " + path("c/linear.rlx"));
  expect_complaint(r, 1, "cannot be written: No such file or directory");
  fs::create_directory(folder_ / "c");
  ASSERT_EQ(rlx("convert " + model + " -o " + path("c/linear.rlx")).code, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "c"), {}), 2)
      << "the text, the weights, nothing else";
  const std::string flags = " --dim batch=3 --random 9 --output-dir ";
  ASSERT_EQ(rlx("run " + model + flags + path("of_onnx")).code, 0);
  ASSERT_EQ(
      rlx("run " + path("c/linear.rlx") + " --load " + path("c/linear.safetensors") + flags + path("of_text"))
          .code,
      0);
  for (const char* name : {"out_y_0.npy", "out_y_0_2.npy"})
    EXPECT_EQ(slurp(folder_ / "of_onnx" / name), slurp(folder_ / "of_text" / name)) << name;
  expect_complaint(rlx("convert " + model + " -o " + path("c/linear.safetensors")), 2, "such as model.rlx");
  expect_complaint(rlx("convert " + model), 2, "--output");

  // If the weights cannot be written, neither is the text.
  fs::create_directory(folder_ / "d");
  fs::create_directory(folder_ / "d/linear.safetensors");
  expect_complaint(rlx("convert " + model + " -o " + path("d/linear.rlx")), 1, "not a regular file");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "d"), {}), 1);
}

TEST_F(Cli, BenchMeasuresAModel) {
  const std::string model = write("linear.onnx", linear_model());
  const Result r = rlx("bench add16 " + model + " --dim batch=3 --seconds 0.01 --json " + path("bench.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("\nadd16") && r.out.contains("nine of ten within")) << r.out;
  const json cases = json::parse(slurp(path("bench.json"))).at("cases");
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_FALSE(cases[0].contains("load_ms"));
  EXPECT_EQ(cases[0].at("case"), "add16");
  EXPECT_EQ(cases[1].at("case"), model);
  for (const char* field :
       {"load_ms", "compile_ms", "upload_ms", "first_run_ms", "wall_ms", "p90_ms", "cpu_ms"})
    EXPECT_GT(cases[1].at(field).get<double>(), 0) << field;
  EXPECT_EQ(cases[1].at("weight_bytes"), 512);
  EXPECT_GE(cases[1].at("p90_ms").get<double>(), cases[1].at("wall_ms").get<double>());
  expect_complaint(rlx("bench no/such/file.onnx"), 1, "no/such/file.onnx");
  expect_complaint(rlx("bench add16 --dim batch=3"), 2, "are for models");
}

TEST_F(Cli, BenchDrawsGrowth) {
  const std::string svg = path("growth.svg");
  const Result r = rlx("bench --growth sort scatter_add --largest 3000 --seconds 0.001 --plot " + svg +
                       " --json " + path("growth.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("exponent") && r.out.contains("beside std::sort on one core")) << r.out;
  const json grown = json::parse(slurp(path("growth.json"))).at("cases");
  ASSERT_EQ(grown.size(), 2u);
  EXPECT_EQ(grown[0].at("case"), "sort");
  ASSERT_EQ(grown[0].at("points").size(), 2u);
  EXPECT_EQ(grown[0].at("points")[1].at("n"), 3000);
  EXPECT_GT(grown[0].at("points")[1].at("cpu_ms").get<double>(), 0);
  // Each element that is opened is closed, in the right order.
  const std::string text = slurp(svg);
  EXPECT_TRUE(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::string tag = text.substr(at + 1, text.find('>', at) - at - 1);
    const std::string name =
        tag.substr(tag.starts_with("/"), tag.find_first_of(" /", 1) - tag.starts_with("/"));
    if (tag.starts_with("/")) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_TRUE(text.contains(">sort</text>") && text.contains("CPU time (ms)")) << text;
  expect_complaint(rlx("bench --growth no_such_case"), 2, "no_such_case");
  expect_complaint(rlx("bench --growth add16"), 2, "'add16' has one size");
  expect_complaint(rlx("bench sort --plot " + svg), 2, "are for --growth");
  expect_complaint(rlx("bench sort --growth --largest 10"), 2, "the smallest size of sort is 1000");
}

TEST_F(Cli, ModelsThatAreWrong) {
  expect_complaint(rlx("run /no/such/model.onnx"), 1, "'/no/such/model.onnx' cannot be read: No such file");
  expect_complaint(rlx("info /no/such/model"), 1, "'/no/such/model' cannot be read");
  fs::create_directory(folder_ / "folder.onnx");
  expect_complaint(rlx("info " + path("folder.onnx")), 1, "not a regular file");
  expect_complaint(rlx("run ''"), 2, "the name of the file is empty");
  const std::string whole = linear_model();
  for (const size_t n :
       {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{20}, whole.size() / 2, whole.size() - 1}) {
    expect_complaint(rlx("run " + write("cut.onnx", whole.substr(0, n)) + " --dim batch=2"), 1, "cut.onnx: ");
  }
  std::string noise;
  for (int i = 0; i < 1000; ++i) noise += static_cast<char>(i * i * 31 + i / 3);
  expect_complaint(rlx("info " + write("noise", noise)), 1, "noise: ");
  // What a file holds counts, not its name.
  EXPECT_EQ(rlx("run " + write("text.onnx", std::string(kSmall)) + " --dim batch=2").code, 0);
  EXPECT_EQ(rlx("run " + write("model.rlx", whole) + " --dim batch=2").code, 0);
}

// --- Text in pictures; with the networks themselves: ocr_test.cpp ---

TEST_F(Cli, PicturesThatAreNoneAreSentences) {
  expect_complaint(rlx("ocr"), 2, "IMAGE");
  expect_complaint(rlx("ocr " + path("none.png")), 1, "none.png");
  expect_complaint(rlx("ocr " + write("empty.png", "")), 1, "empty.png: the file is empty");
  expect_complaint(rlx("ocr " + write("text.png", "hello")), 1, "neither a PNG nor a JPEG");
  expect_complaint(rlx("ocr " + write("cut.png", "\x89PNG\r\n\x1a\n")), 1, "the PNG file is broken");
  expect_complaint(rlx("ocr a.png --longest-side 1"), 2, "--longest-side");
}

TEST_F(Cli, NetworksThatAreMissingOrEmptyAreSentences) {
  const std::string picture = std::string(RLX_SOURCE_DIR) + "/examples/ocr/cafe.png ";
  const std::string cache = "RLX_CACHE_DIR='" + path("cache") + "'";
  expect_complaint(rlx("ocr " + picture, cache), 1, "./rlx downloads the networks");
  fs::create_directories(folder_ / "nets");
  for (const char* name : {"ch_PP-OCRv4_det_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx",
                           "ch_PP-OCRv4_rec_infer.onnx", "ppocr_keys_v1.txt"})
    write(std::string("nets/") + name, "");
  const std::string nets = "--models " + path("nets");
  expect_complaint(rlx("ocr " + picture + nets), 1, "ppocr_keys_v1.txt: the file is empty");
  write("nets/ppocr_keys_v1.txt", "a\nb");
  expect_complaint(rlx("ocr " + picture + nets + " --boxes " + path("boxes.png")), 1,
                   "det_infer.onnx: the file is empty");
  EXPECT_FALSE(fs::exists(folder_ / "boxes.png"));
  expect_complaint(rlx("demo " + nets), 1, "det_infer.onnx: the file is empty");
}

TEST_F(Cli, TheDemoRunsBertWhereThereAreNoNetworks) {
  const std::string cache = "RLX_CACHE_DIR='" + path("cache") + "'";
  const Result r = rlx("demo --layers 0 --tokens 4 --no-check", cache);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("BERT runs instead")) << r.out;
  EXPECT_TRUE(r.out.contains("warm run")) << r.out;
  expect_complaint(rlx("demo cats"), 2, "there is no demo 'cats'; there are: text, speech, bert");
}

}  // namespace
}  // namespace rlx
