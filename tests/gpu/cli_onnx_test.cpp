// The program with ONNX files: ONNX's own tests, what it says of a model, inputs and outputs as files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "import/npy.h"
#include "import/onnx/model_file.h"
#include "rlx/npy.h"
#include "tests/gpu/cli_models.h"
#include "tests/support/full.h"
#include "tests/support/onnx_model.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

using testing::Cli;
using testing::kSmall;
using testing::linear_model;
using testing::pattern;
using Result = testing::CliResult;

constexpr auto kNodeTests = "/usr/share/libonnx-testdata/data/node/";  // Debian's libonnx-testdata

// ONNX's own tests, all of the nodes (a default of an attribute may show in one of them alone) and of models
// the small ones; all with --full. None may be wrong, and no more may be refused than today.
TEST_F(Cli, ConformanceWithOnnx) {
  if (!fs::exists(kNodeTests)) GTEST_SKIP() << "missing: Debian's libonnx-testdata";
  const std::string report = (folder_ / "report.json").string();
  // Of Debian's onnx 1.20; an older package has fewer.
  const Result nodes = rlx("conformance --suite node --suite simple --json-file " + report);
  EXPECT_EQ(nodes.code, 0) << nodes.out << nodes.err;
  const json both = json::parse(slurp(report));
  const json& node = both.at("node");
  EXPECT_EQ(node.at("wrong"), 0) << nodes.out;
  EXPECT_LE(node.at("refused"), 67) << nodes.out;
  EXPECT_GE(node.at("passed"), 1585) << nodes.out;
  for (const json& one : both.at("simple").at("cases")) {
    if (one.at("name").get<std::string>().starts_with("test_sequence_model")) {
      EXPECT_EQ(one.at("outcome"), "passed") << one;
    }
  }
  for (const char* const suite : {"pytorch-converted", "pytorch-operator", "light"}) {
    if (suite == std::string_view("light") && !testing::full_run()) continue;
    const Result r = rlx(std::string("conformance --suite ") + suite + " --json-file " + report);
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    const json all = json::parse(slurp(report)).at(suite);
    EXPECT_EQ(all.at("passed"), all.at("total")) << r.out;
  }
}

// What ONNX Runtime gives for the ops of com.microsoft, and for recurrent networks with what ONNX's own tests
// lack (tests/fixtures/make_onnx_microsoft.py, make_recurrent.py).
TEST_F(Cli, ConformanceWithOnnxRuntime) {
  const std::string fixtures = in_source("tests/fixtures/onnx");
  const std::string report = (folder_ / "report.json").string();
  for (const auto& [suite, least] :
       {std::pair("microsoft", 145), std::pair("quantised", 45), std::pair("recurrent", 9)}) {
    const Result r = rlx(formatted("conformance {} --suite {} --json-file {}", fixtures, suite, report));
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
  const Result as_json = rlx("info --json " + file);
  ASSERT_EQ(as_json.code, 0) << as_json.err;
  const json info = json::parse(as_json.out);
  EXPECT_EQ(info.at("format"), "onnx");
  EXPECT_EQ(info.at("ops"), (json{{"MatMul", 1}, {"Relu", 1}}));
  EXPECT_EQ(info.at("parameters"), 128);
  EXPECT_EQ(info.at("opsets"), (json{{"", 17}}));
  EXPECT_TRUE(info.at("problems").empty());
  EXPECT_EQ(rlx("info " + file + " --json-file " + path("info.json")).out, r.out);
  EXPECT_EQ(json::parse(slurp(path("info.json"))), info);

  // A graph text has the same, as far as it can.
  const json text = json::parse(rlx("info --json " + write("small.rlx", kSmall)).out);
  EXPECT_EQ(text.at("inputs"), (json{"x: f32[batch, 6]"}));
  EXPECT_EQ(text.at("ops"), (json{{"matmul", 1}, {"relu", 1}}));
  EXPECT_EQ(text.at("bytes"), 96);
}

// The tensors of a sequence are inputs and outputs of their own; an optional may hold nothing.
TEST_F(Cli, SequencesAndOptionalsAsInputs) {
  testing::OnnxModel model;
  using testing::OnnxKind;
  testing::OnnxGraph body;
  body.input("one", {"n"}).node("Neg", {"one"}, {"minus"}).output("minus");
  model.graph.input("s", {"n"}, Type::float32, OnnxKind::sequence)
      .input("o", {"n"}, Type::float32, OnnxKind::optional)
      .node("SequenceMap", {"s"}, {"t"}, {{"body", body}})
      .node("OptionalHasElement", {"o"}, {"has"})
      .node("Cast", {"has"}, {"y"}, {{"to", 1}})
      .output("t", Type::float32, OnnxKind::sequence)
      .output("y");
  const std::string file = write("list.onnx", model.text());
  const std::string given = " --input 's[0]=" + write("a.npy", Tensor::of<float>({2}, {1, 2})) +
                            "' --input 's[1]=" + write("b.npy", Tensor::of<float>({1}, {3})) + "'";
  const Result r = rlx("run " + file + given + " --dim n=2 --output-dir " + path("lists"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(read_npy(path("lists/t_0_.npy")).doubles(), (std::vector<double>{-1, -2}));
  EXPECT_EQ(read_npy(path("lists/t_1_.npy")).doubles(), (std::vector<double>{-3}));
  EXPECT_EQ(read_npy(path("lists/y.npy")).doubles(), (std::vector<double>{1}));
  const Result without = rlx("run " + file + given + " --length o=none --output-dir " + path("less"));
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_EQ(read_npy(path("less/y.npy")).doubles(), (std::vector<double>{0}));
  EXPECT_EQ(rlx("run " + file + " --length s=3 --dim n=2").code, 0);

  const Result unknown = rlx("run " + file);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(unknown.err.contains("s (input): it is a sequence") && unknown.err.contains("--length NAME=N"))
      << unknown.err;
  expect_complaint(rlx("run " + file + " --length s=few"), 2, "--length is 's=few'");
  expect_complaint(rlx("run " + file + " --length s=-1"), 2, "a whole number of at least 0");
  expect_complaint(rlx("run " + file + " --length y=1"), 2, "no input named 'y' is a sequence");
  expect_complaint(rlx("run " + file + given + " --length s=1"), 2, "there is no 's[1]'");
  expect_complaint(rlx("run " + file + " --input s=" + path("a.npy")), 2, "'s' is a sequence");
  EXPECT_TRUE(rlx("info " + file).out.contains("s: a sequence of float[n]"));
}

TEST_F(Cli, InfoNamesEveryNodeThatCannotRun) {
  testing::OnnxModel model;
  model.graph.input("x", {4}, Type::float32);
  model.graph.node("Frobnicate", {"x"}, {"a"});
  model.graph.node("Whirl", {"a"}, {"b"}, {}, "ai.onnx.ml");  // also behind another one
  model.graph.output("a", Type::float32);
  model.graph.output("b", Type::float32);
  const std::string file = write("odd.onnx", model.text());
  const json problems = json::parse(rlx("info --json " + file).out).at("problems");
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
  const json future = json::parse(rlx("info --json " + write("next.onnx", next.text())).out);
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
  expect_complaint(rlx(run + " --input " + in_source("tests/fixtures/npy.npz")), 2,
                   "the model has no input 'bool_");
  expect_complaint(rlx(run + " --input x=" + x + " --output-dir " + x + "/sub"), 1,
                   "cannot be made: Not a directory");
  expect_complaint(rlx(run + " --input x=" + x + " --output-dir " + x), 2, "is a file, not a folder");
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

// What info says can run can be planned.
TEST_F(Cli, InfoTellsWhatCannotBePlanned) {
  const char* const kLoop = R"(graph g {
    %x = input : f32[2]
    %r = loop(none, none, %x) {carried=1, count=dim(steps), body=graph b { %i = input : i32[]
      %x = input : f32[2] %y = add(%x, %x) %s = sum(%y) %go = less(%s, 4)
      output go = %go output y = %y output each = %y }}
    output y = %r:1
  })";
  const std::string loop = write("loop.rlx", kLoop);
  EXPECT_EQ(rlx("plan " + loop).code, 1);
  const Result r = rlx("info " + loop);
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_TRUE(r.err.contains("determines the symbol 'steps', which needs a capacity")) << r.err;
  // Only with some sizes.
  testing::OnnxModel model;
  model.graph.input("x", {"n"}).output("a").output("b");
  model.graph.initializer("sizes", Tensor::of<int64_t>({2}, {2, 3}));
  model.graph.node("Split", {"x", "sizes"}, {"a", "b"}, {{"axis", 0}});
  const std::string split = write("split.onnx", model.text());
  EXPECT_EQ(rlx("info " + split).code, 0);
  EXPECT_EQ(rlx("info --dim n=5 " + split).code, 0);
  EXPECT_NE(rlx("plan --dim n=6 " + split).code, 0);
  const Result six = rlx("info --dim n=6 --json " + split);
  EXPECT_EQ(six.code, 1);
  EXPECT_EQ(json::parse(six.out).at("problems").size(), 1) << six.out;
  // With no size that a run can have: of two elements no five are found.
  testing::OnnxModel few;
  few.graph.input("x", {2}).output("a", testing::ElementType::int64).output("b", testing::ElementType::int64);
  few.graph.initializer("sizes", Tensor::of<int64_t>({2}, {2, 3}));
  few.graph.node("NonZero", {"x"}, {"found"}).node("Split", {"found", "sizes"}, {"a", "b"}, {{"axis", 1}});
  const std::string never = write("never.onnx", few.text());
  EXPECT_EQ(rlx("plan " + never).code, 1);
  const Result none = rlx("info " + never);
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(none.out.contains("reshape: [1, 2] has 2 elements, but [1, 5] has 5")) << none.out;
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

// Random leaves are what the ops that read them can use, directly or through views.
TEST_F(Cli, RandomValuesMakeSense) {
  const std::string model = write("leaves.rlx", R"(graph leaves {
  %table = param : f32[1000, 4]
  %few = param : f32[3, 4]
  %ids = input : i64[500]
  %both = input : i64[500]
  %variance = input : f32[4]
  %a = input : f32[2, 6, 6]
  %bytes = input : u8[500]
  %free = input : i32[500]
  %flat = reshape(%ids) {shape=[20, 25]}
  %x = gather(%table, %flat)
  %y = gather(%table, %both)
  %z = gather(%few, %both)
  %v = batch_norm(%y, %variance, %variance)
  %l = cholesky(%a)
  %w = gather(%table, %bytes)
  output x = %x  output z = %z  output v = %v  output info = %l:1  output w = %w
  output ids = %ids  output both = %both  output variance = %variance  output bytes = %bytes
  output free = %free
})");
  const Result r = rlx("run " + model + " --random 1 --output-dir " + path("leaves"));
  ASSERT_EQ(r.code, 0) << r.err;
  const auto range = [&](const std::string& name) {
    const std::vector<double> values = read_npy(path("leaves/" + name + ".npy")).doubles();
    return std::pair(*std::ranges::min_element(values), *std::ranges::max_element(values));
  };
  EXPECT_GT(range("ids").second, 900);  // the whole table
  EXPECT_LT(range("ids").second, 1000);
  EXPECT_EQ(range("both"), std::pair(0.0, 2.0));  // the smaller of two tables
  EXPECT_GT(range("bytes").second, 200);          // what a byte can say
  EXPECT_EQ(range("free"), std::pair(0.0, 9.0));
  EXPECT_GE(range("variance").first, 0);
  EXPECT_EQ(range("info"), std::pair(0.0, 0.0));  // positive definite
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
  expect_complaint(r, 2, "cannot be written: there is no folder");
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
  expect_complaint(rlx("convert " + model + " -o " + path("d/linear.rlx")), 2, "it is a folder");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "d"), {}), 1);
}

}  // namespace
}  // namespace rlx
