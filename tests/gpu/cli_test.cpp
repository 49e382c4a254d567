// The program as its users call it; with ONNX files: cli_onnx_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/format.h"
#include "ops/machinery/op_table.h"
#include "rlx/safetensors.h"
#include "rlx/schema.h"
#include "rlx/version.h"
#include "tests/gpu/cli_models.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

using testing::Cli;
using testing::kSmall;
using testing::linear_model;
using Result = testing::CliResult;

TEST_F(Cli, HelpAndVersion) {
  for (const char* arguments : {"--help", "devices --help", "ops --help", "info --help", "plan --help",
                                "run --help", "profile --help", "calibrate --help", "cost --help",
                                "verify --help", "convert --help", "bench --help", "gpu-report --help",
                                "ocr --help", "transcribe --help", "spectrogram --help", "demo --help"}) {
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
  expect_complaint(rlx("devices --backend null"), 2, "--backend: the backend 'null' computes nothing");
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
  expect_complaint(rlx("info " + file + " --dim rows=2"), 2, "no symbol named 'rows'");
  expect_complaint(rlx("run " + file + " --dim batch=2 --output-dir -"), 2, "--output-dir is '-'");
  EXPECT_FALSE(std::filesystem::exists("-"));
  const std::string wide = write("wide.rlx",
                                 "graph g { %x = input : f32[2, n] %w = param : f32[n, 3]\n"
                                 "  %y = matmul(%x, %w) output y = %y }\n");
  expect_complaint(rlx("run " + wide + " --dim n=4 --capacity n=8"), 2,
                   "the param 'w' has the dimension 'n'");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --dim batch=3"), 2, "twice");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --kernel matmul=warp"), 2, "'warp'");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --kernel 'matmul=rows ROWS=77'"), 1,
                   "has no kernel 'rows ROWS=77' for these sizes");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --precision half"), 2, "exact, mixed and fast");
  EXPECT_EQ(rlx("plan " + file + " --dim batch=2 --precision mixed").code, 0);
  expect_complaint(rlx("plan " + file + " --dim batch=2 --kernel softmax=serial"), 0, "no dispatch uses it");
  expect_complaint(rlx("plan " + file + " --dim batch=2 --limit buffers=1"), 1, "node");
  expect_complaint(rlx("plan " + file + " --capacity batch=2"), 2, "--input x=FILE");
  expect_complaint(rlx("plan " + file + " --dim batch=3 --capacity batch=2"), 2,
                   "the symbol 'batch' is 3, more than --capacity batch=2");
  expect_complaint(rlx("plan " + file + " --dim batch=3 --capacity batch=0"), 2, "at least 1");
  expect_complaint(rlx("plan " + file + " --dim batch=3 --capacity rows=2"), 2, "no symbol named 'rows'");
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
  const std::string noise = "\x0a\x05\x01hello\x02";
  expect_complaint(rlx("run " + write("noise.onnx", noise)), 1, "noise.onnx: this is not an ONNX model");
  expect_complaint(rlx("info " + write("noise.rlx", noise)), 1, "nor is it the text of a graph");
}

// Before any work: the graph does not even exist.
TEST_F(Cli, ReportsThatCannotBeWrittenAreMisuse) {
  for (const char* call : {"run none.rlx --trace", "profile none.rlx --html", "profile none.rlx --trace",
                           "info none.rlx --json-file", "bench add16 --json-file"}) {
    expect_complaint(rlx(formatted("{} {}", call, path("nowhere/out"))), 2,
                     "there is no folder " + path("nowhere"));
    expect_complaint(rlx(formatted("{} {}", call, folder_.string())), 2, "cannot be written: it is a folder");
  }
}

TEST_F(Cli, LoadedTensorsOfOtherTypesNameTheFile) {
  const std::string run = "run " +
                          write("two.rlx",
                                "graph g {\n  %x = input : f32[2]\n  %w = param : f16[2]\n"
                                "  %c = cast(%w) {to=f32}\n  %y = add(%x, %c)\n  output y = %y\n}\n") +
                          " --load " + path("w.safetensors");
  const auto given = [&](const char* name, const Tensor& t) {
    save_safetensors(path("w.safetensors"), {{name, t}});
    return rlx(run);
  };
  const std::string file = path("w.safetensors");
  expect_complaint(given("x", Tensor::zeros(DType::f32, {3})), 2,
                   "--load: the input 'x' is f32[2], but " + file + " has f32[3]");
  expect_complaint(given("w", Tensor::zeros(DType::f16, {2, 1})), 2,
                   "--load: the param 'w' is f16[2], but " + file + " has f16[2, 1]");
  expect_complaint(given("w", Tensor::zeros(DType::i32, {2})), 2, "has i32[2]");
  EXPECT_EQ(given("w", Tensor::zeros(DType::f32, {2})).code, 0) << "f32 is rounded to f16";
  EXPECT_EQ(given("other", Tensor::zeros(DType::f32, {7})).code, 0);
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
    EXPECT_EQ(op.at("doc"), info->formula);
    EXPECT_EQ(op.at("kernels"), info->variants.list());
    EXPECT_TRUE(op.at("types").is_array());
    EXPECT_EQ(op.at("expands"), info->make()->expands());
    EXPECT_EQ(op.at("gradient"), info->make()->has_gradient());
    EXPECT_EQ(op.at("operands").empty(), op.at("name") == "range" || op.at("name") == "eye") << op;
    EXPECT_EQ(op.at("host"), false) << op;  // every op has kernels, is a view or is made of ops that have
    EXPECT_EQ(op.size(), 12u) << op;
    for (const char* list : {"operands", "attributes", "outputs"}) {
      for (const json& item : op.at(list)) EXPECT_FALSE(item.at("doc").get<std::string>().empty()) << item;
    }
  }
  const auto described = [](json item) {
    item.erase("doc");
    return item;
  };
  const json softmax = json::parse(rlx("ops softmax --json").out);
  EXPECT_EQ(described(softmax.at(0).at("attributes").at(0)),
            (json{{"name", "axis"}, {"kind", "whole number"}, {"default_value", "-1"}}));
  const json qr = json::parse(rlx("ops qr --json").out);
  EXPECT_EQ(described(qr.at(0).at("outputs").at(1)),
            (json{{"name", "r"}, {"types", {"T"}}, {"optional", false}, {"variadic", false}}));
  const json norm = json::parse(rlx("ops layer_norm --json").out);
  EXPECT_EQ(described(norm.at(0).at("operands").at(1)), (json{{"name", "gamma"},
                                                              {"types", {"f32", "f16", "bf16"}},
                                                              {"optional", true},
                                                              {"variadic", false},
                                                              {"reads_views", true},
                                                              {"reads_encoded", false}}));
  const json matmul = json::parse(rlx("ops matmul --json").out);
  EXPECT_EQ(described(matmul.at(0).at("operands").at(2)),
            (json{{"name", "extra"},
                  {"types", op_schema("matmul").operands[2].types},
                  {"optional", false},
                  {"variadic", true},
                  {"reads_views", true},
                  {"reads_encoded", false}}));
  const json gather = json::parse(rlx("ops gather --json").out);
  EXPECT_EQ(gather[0]["operands"][0]["reads_encoded"], true);
  EXPECT_EQ(gather[0]["operands"][1]["reads_encoded"], false);
  EXPECT_TRUE(rlx("ops").out.contains("q8_0, q4_k"));
  const json pad = json::parse(rlx("ops pad --json").out);
  EXPECT_EQ(described(pad.at(0).at("attributes").at(2)),
            (json{{"name", "mode"},
                  {"kind", "text"},
                  {"default_value", "\"constant\""},
                  {"words", {"constant", "reflect", "edge", "wrap"}}}));
  for (const auto& [name, info] : op_table().all()) EXPECT_TRUE(r.out.contains(formatted("\"{}\"", name)));
  const Result one = rlx("ops matmul");
  EXPECT_EQ(one.code, 0);
  EXPECT_TRUE(one.out.contains(op_table().find("matmul")->formula)) << one.out;
  const Result attention = rlx("ops attention");
  EXPECT_TRUE(attention.out.contains("mask?")) << attention.out;
  EXPECT_TRUE(attention.out.contains("[batch] or [], how many keys count")) << attention.out;
  EXPECT_TRUE(attention.out.contains("log_sum?")) << attention.out;
  EXPECT_TRUE(attention.out.contains("one of \"none\", \"causal\", \"sliding_window\" ")) << attention.out;
}

TEST_F(Cli, ThePageOfOpsIsWhatTheProgramPrints) {
  const Result r = rlx("ops --markdown");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out == slurp(fs::path(in_source("docs/ops.md"))))
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
  // What a plan shows can be forced.
  const std::string whole = "transposed rows ROWS=2 LANES=8 QUADS=1";
  const Result forced =
      rlx("plan --json --dim batch=3 --no-optimize --kernel 'matmul=" + whole + "' " + file);
  EXPECT_EQ(json::parse(forced.out)["dispatches"][0].at("variant"), whole) << forced.err;
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

TEST_F(Cli, BenchMeasuresAModel) {
  const std::string model = write("linear.onnx", linear_model());
  const Result r =
      rlx("bench add16 " + model + " --dim batch=3 --seconds 0.01 --json-file " + path("bench.json"));
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
                       " --json-file " + path("growth.json"));
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
  const std::string picture = in_source("examples/ocr/cafe.png ");
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
