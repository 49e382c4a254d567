// `rlx bench --peer`, with programs that only pretend to be the peers: what is asked of them, and what
// becomes of answers.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.h"
#include "rlx/safetensors.h"
#include "tests/gpu/cli_harness.h"
#include "tests/support/onnx_model.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

using Result = testing::CliResult;

class BenchPeer : public testing::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    fs::create_directories(folder_ / "bin");
    fs::create_directories(folder_ / "cache/peers/onnxruntime-node-1.30.0");
    write("cache/peers/onnxruntime-node-1.30.0/package.json", "{}");
    model_ = write("double.onnx", doubling_model());
  }

  // y = x + x, of any length.
  static std::string doubling_model() {
    testing::OnnxModel model;
    model.graph.input("x", {"length"}).node("Add", {"x", "x"}, {"y"}).output("y");
    return model.text();
  }

  // A program in a folder that is searched first. It keeps its first line in the file `job`.
  void pretend(const std::string& program, const std::string& script) {
    const std::string file = write("bin/" + program, "#!/bin/sh\n" + script);
    fs::permissions(file, fs::perms::owner_all);
  }
  Result bench(const std::string& arguments) {
    return rlx("bench --seconds 0.001 " + arguments,
               formatted("PATH='{}':\"$PATH\" RLX_CACHE_DIR='{}'", path("bin"), path("cache")));
  }
  std::string answering(const std::string& ready, const std::string& measured) {
    return formatted(
        "read job; echo \"$job\" >'{}'\necho noise; echo '{}'\nwhile read s; do echo '{}'; done\n",
        path("job"), ready, measured);
  }

  std::string model_;
};

TEST_F(BenchPeer, ReportsBothSides) {
  pretend("node", answering("@rlx ready 0 7 2.5e-06 1.30.0", "@rlx measured 1000 2000 3"));
  const std::string call = model_ + " --dim length=5 --peer ort-cpu --rounds 2 ";
  const Result r = bench(call + "--json-file " + path("out.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("ort-cpu wall") && r.out.contains("2000 ms")) << r.out;
  EXPECT_TRUE(r.out.contains("runs some of its nodes on the CPU") && r.out.contains("2.5e-06")) << r.out;
  const json report = json::parse(slurp(path("out.json")));
  EXPECT_EQ(report.size(), 2u) << report;
  EXPECT_FALSE(report.at("adapter").get<std::string>().empty());
  ASSERT_EQ(report.at("cases").size(), 1u);
  const json& one = report.at("cases")[0];
  EXPECT_EQ(one.at("case"), model_);
  EXPECT_EQ(one.at("dispatches"), 1);
  EXPECT_EQ(one.at("peer_dispatches"), 7);
  EXPECT_EQ(one.at("peer_wall_ms"), 1000);
  EXPECT_EQ(one.at("peer_cpu_ms"), 2000);
  EXPECT_GT(one.at("cpu_ms").get<double>(), 0);
  EXPECT_DOUBLE_EQ(one.at("ratio_cpu").get<double>(), one.at("cpu_ms").get<double>() / 2000);
  EXPECT_DOUBLE_EQ(one.at("ratio_wall").get<double>(), one.at("wall_ms").get<double>() / 1000);

  // The peer is told the sizes, and where the values are.
  const json job = json::parse(slurp(path("job")));
  EXPECT_EQ(job.at("provider"), "cpu");
  EXPECT_EQ(job.at("model"), model_);
  EXPECT_EQ(job.at("dims"), json({{"length", 5}}));
  EXPECT_TRUE(job.at("inputs").contains("x") && job.at("outputs").contains("y")) << job;
  EXPECT_FALSE(fs::exists(job.at("inputs").at("x").get<std::string>())) << "temporary files stay behind";

  EXPECT_EQ(json::parse(bench(call + "--json").out).at("cases").size(), 1u);
}

// One shape of report: what holds without a peer holds beside one, which adds to it.
TEST_F(BenchPeer, AReportHasTheSameFieldsWithoutAPeer) {
  pretend("node", answering("@rlx ready 0 7 2.5e-06 1.30.0", "@rlx measured 1000 2000 3"));
  const std::string call = model_ + " --dim length=5 --json ";
  const json alone = json::parse(bench(call).out);
  const json beside = json::parse(bench(call + "--peer ort-cpu --rounds 1").out);
  for (const json& report : {alone, beside}) {
    ASSERT_EQ(report.at("cases").size(), 1u);
    const json& one = report.at("cases")[0];
    EXPECT_EQ(one.at("case"), model_);
    for (const char* field : {"cpu_ms", "wall_ms", "dispatches"})
      EXPECT_GT(one.at(field).get<double>(), 0) << field;
    EXPECT_EQ(one.contains("peer_cpu_ms"), report == beside);
  }
  EXPECT_EQ(alone.at("adapter"), beside.at("adapter"));
}

TEST_F(BenchPeer, BothProvidersHaveTheirTurns) {
  pretend("node", "read job\ncase $job in *webgpu*) ms=1000;; *) ms=50;; esac\n" +
                      std::string("echo '@rlx ready 1 7 0 1.30.0'\n"
                                  "while read s; do echo \"@rlx measured $ms $ms 3\"; done\n"));
  const Result r = bench(model_ + " --dim length=5 --peer ort --json-file " + path("out.json"));
  if (r.err.contains("exactly one vulkan adapter")) GTEST_SKIP() << r.err;
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("ort wall") && r.out.contains("ort-cpu wall")) << r.out;
  const json one = json::parse(slurp(path("out.json"))).at("cases").at(0);
  EXPECT_EQ(one.at("peer_cpu_ms"), 1000);
  const json& cpu = one.at("cpu_provider");
  EXPECT_EQ(cpu.at("peer_wall_ms"), 50);
  EXPECT_DOUBLE_EQ(cpu.at("ratio_cpu").get<double>(), one.at("cpu_ms").get<double>() / 50);
}

TEST_F(BenchPeer, WhatIsRefusedDoesNotSpoilTheRest) {
  pretend("node",
          "read job\ncase $job in *odd.onnx*) echo '@rlx error no such operator: Frob'; exit;; esac\n" +
              std::string("echo '@rlx ready 1 7 0 1.30.0'\n"
                          "while read s; do echo '@rlx measured 50 50 3'; done\n"));
  const std::string odd = write("odd.onnx", doubling_model());
  const Result r =
      bench(odd + " " + model_ + " --dim length=5 --peer ort-cpu --json-file " + path("out.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("odd.onnx: ONNX Runtime says: no such operator: Frob")) << r.out;
  const json all = json::parse(slurp(path("out.json"))).at("cases");
  EXPECT_TRUE(all.at(0).contains("refusal") && !all.at(0).contains("ratio_cpu")) << all;
  EXPECT_EQ(all.at(1).at("peer_cpu_ms"), 50);
}

TEST_F(BenchPeer, RefusesBeforeItMeasures) {
  const std::string text = write("double.rlx", "graph double {\n}\n");
  expect_complaint(bench(text + " --peer ort-cpu"), 2, "--peer ort-cpu takes ONNX files");
  expect_complaint(bench("add16 --json-file " + path("nowhere/out.json")), 2,
                   "there is no folder " + path("nowhere"));
}

TEST_F(BenchPeer, SaysWhatThePeerSays) {
  const std::string call = model_ + " --dim length=5 --peer ort-cpu";
  pretend("node", "read job\necho '@rlx error no such operator: Frob'\n");
  const Result refused = bench(call);
  expect_complaint(refused, 1, "ONNX Runtime says: no such operator: Frob");
  EXPECT_TRUE(refused.out.contains("dispatches") && refused.out.contains(" ms ")) << refused.out;
  pretend("node", "read job\necho '@rlx ready 1 -1 nan 1.30.0'\nread s\necho '@rlx measured 50 50 3'\n");
  const Result half = bench(call + " --json");
  expect_complaint(half, 1, "ONNX Runtime ended early");
  const json figures = json::parse(half.out).at("cases").at(0);
  EXPECT_TRUE(figures.contains("cpu_ms") && !figures.contains("peer_cpu_ms")) << figures;
  pretend("node", "echo 'one line' >&2; echo 'a library is missing' >&2; exit 127\n");
  expect_complaint(bench(call), 1, "ONNX Runtime ended early: a library is missing");
  pretend("node", "read job\necho '@rlx ready 1 -1'\n");
  expect_complaint(bench(call), 1, "something else than was agreed");
  pretend("node", answering("@rlx ready 1 -1 nan 1.30.0", "@rlx measured lots"));
  expect_complaint(bench(call), 1, "something else than was agreed");
}

TEST_F(BenchPeer, SaysWhatIsMissing) {
  const std::string environment = formatted("PATH='{}' RLX_CACHE_DIR='{}'", path("bin"), path("cache"));
  const std::string call = "bench " + model_ + " --dim length=5 --peer ort-cpu";
  expect_complaint(rlx(call, environment), 1, "needs node");
  fs::remove_all(folder_ / "cache/peers");
  expect_complaint(rlx(call, environment), 1, "there is no ONNX Runtime in " + path("cache"));
  expect_complaint(rlx("bench matmul512 --peer ort", environment), 1,
                   "cases/matmul512.onnx: in a checkout of the sources, ./rlx bench matmul512 --peer ort");
  expect_complaint(rlx("bench ocr_det", environment), 1,
                   "ch_PP-OCRv4_det_infer.onnx: in a checkout of the sources, ./rlx bench ocr_det");
}

TEST_F(BenchPeer, ReadsWhatLlamaCppPrints) {
  pretend("test-backend-ops", formatted("echo \"$@ $GGML_VK_VISIBLE_DEVICES\" >'{}'\n", path("job")) +
                                  "echo '  MUL_MAT(type_a=q4_K,n=1):     852 runs - 24317.02 us/run - 117.44 "
                                  "MFLOP/run - 4.83 GFLOPS'\n");
  const Result r = bench("wide_matvec_q4_k --peer ggml --json-file " + path("out.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("ggml GFLOP/s")) << r.out;
  const json one = json::parse(slurp(path("out.json"))).at("cases").at(0);
  EXPECT_NEAR(one.at("peer_wall_ms").get<double>(), 24.31702, 1e-9);
  EXPECT_NEAR(one.at("peer_gflops").get<double>(), 4.83, 0.005);
  EXPECT_EQ(slurp(path("job")),
            "perf -o MUL_MAT -b Vulkan0 -p type_a=q4_K,type_b=f32,m=4096,n=1,k=14336 0\n");

  pretend("test-backend-ops", "echo '  MUL_MAT(type_a=q4_K,n=1): not supported'\n");
  const Result none = bench("wide_matvec_q4_k --peer ggml --json-file " + path("out.json"));
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_TRUE(none.out.contains("ggml cannot do it on this device")) << none.out;
  EXPECT_FALSE(json::parse(slurp(path("out.json"))).at("cases").at(0).contains("peer_wall_ms"));

  pretend("test-backend-ops", "echo 'no such device' >&2\n");
  expect_complaint(bench("wide_matvec_q4_k --peer ggml"), 1, "has no result for type_a=q4_K");
  expect_complaint(bench("add16 --peer ggml"), 2, "'add16' is none of the cases that llama.cpp measures");
}

// --- Another build of rlx: here this one, behind scripts ---

class BenchRlx : public BenchPeer {
 protected:
  // Answers as this program does, unless the script has ended before. $report: where its figures go.
  std::string build(const std::string& script) {
    pretend("older",
            "for word; do case $before in --json|--json-file) report=$word;; esac; before=$word; done\n" +
                script + formatted("\nexec '{}' \"$@\"\n", cli_path()));
    return " --peer rlx=" + path("bin/older") + " ";
  }
  json cases() { return json::parse(slurp(path("out.json"))).at("cases"); }
};

TEST_F(BenchRlx, TakesTurnsWithAnotherBuild) {
  // (transpose_batch has a state, which files do not.)
  const std::string peer =
      build(formatted("echo \"$*\" >>'{0}'\n"
                      "case $2 in */case.rlx) cp $2 $4 '{1}';; esac",
                      path("calls"), folder_.string()));
  const Result r = bench(model_ + " add16 transpose_batch --dim length=5 --rounds 2 --random 7" + peer +
                         "--json-file " + path("out.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("peer is " + path("bin/older")) && r.out.contains("peer CPU")) << r.out;
  ASSERT_EQ(cases().size(), 3u);
  for (const json& one : cases()) {
    EXPECT_GT(one.at("cpu_ms").get<double>(), 0) << one;
    EXPECT_DOUBLE_EQ(one.at("ratio_cpu").get<double>(),
                     one.at("cpu_ms").get<double>() / one.at("peer_cpu_ms").get<double>());
    EXPECT_EQ(one.at("dispatches"), one.at("peer_dispatches"));
  }
  const std::string calls = slurp(path("calls"));
  EXPECT_EQ(std::ranges::count(calls, '\n'), 1 + 3 * 2) << calls;
  EXPECT_TRUE(calls.contains("bench " + model_ + " --dim length=5 --load ")) << calls;
  EXPECT_TRUE(calls.contains("--random 7") && calls.contains("bench transpose_batch --seconds 0.001"))
      << calls;
  // The case is a graph with values.
  EXPECT_TRUE(slurp(path("case.rlx")).contains("add(%a, %b)"));
  const SafetensorsFile values = SafetensorsFile::open(path("values.safetensors"));
  EXPECT_TRUE(values.find("a") && values.find("b"));
  EXPECT_FALSE(fs::exists(calls.substr(calls.rfind("--json-file ") + 12))) << "temporary files stay behind";
}

TEST_F(BenchRlx, WorksWithProgramsThatHaveFewerCases) {
  // These take a file after --json. What a text cannot say, they cannot do.
  const std::string peer = build(formatted(
      "echo \"$*\" >>'{0}'\n"
      "case $* in\n"
      "*--help*) '{1}' bench --help | sed -e 's/--json-file/--other/g' -e 's/transpose_batch/gone/' "
      "-e 's/decode:/gone:/' -e 's/matvec_q8_0:/gone:/'; exit;;\n"
      "*--json-file*) exit 3;;\n"
      "*) '{1}' \"$1\" \"$2\" --seconds 0.001 --json-file $report; exit;;\nesac",
      path("calls"), cli_path()));
  const Result r =
      bench("transpose_batch decode matvec_q8_0 --rounds 1" + peer + "--json-file " + path("out.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string calls = slurp(path("calls"));
  EXPECT_EQ(std::ranges::count(calls, '\n'), 2) << calls;
  EXPECT_TRUE(calls.contains("/case.rlx --seconds 0.001 --json ")) << calls;
  EXPECT_TRUE(cases().at(0).contains("ratio_cpu")) << cases();
  EXPECT_TRUE(cases().at(1).at("refusal").get<std::string>().contains("another length in each run"))
      << cases();
  EXPECT_TRUE(cases().at(2).at("refusal").get<std::string>().contains("has encoded weights")) << cases();
  EXPECT_GT(cases().at(2).at("cpu_ms").get<double>(), 0);
}

TEST_F(BenchRlx, WhatAnotherBuildRefusesDoesNotSpoilTheRest) {
  const std::string peer =
      build("case $* in *case.rlx*) echo \"rlx: $2: line 3: no such op\" >&2; exit 1;; esac");
  const Result r =
      bench("add16 " + model_ + " --dim length=5 --rounds 1" + peer + "--json-file " + path("out.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.contains("add16: " + path("bin/older") + " says: case.rlx: line 3: no such op\n"))
      << r.out;
  EXPECT_TRUE(cases().at(0).contains("refusal") && !cases().at(0).contains("ratio_cpu")) << cases();
  EXPECT_TRUE(cases().at(1).contains("ratio_cpu")) << cases();
  const Result all = bench("add16 --rounds 1 --json" + peer);
  expect_complaint(all, 1, "says: case.rlx: line 3: no such op");
  EXPECT_GT(json::parse(all.out).at("cases").at(0).at("cpu_ms").get<double>(), 0);
}

// It is ended in the turn of the other build, which would take a minute.
TEST_F(BenchRlx, AnInterruptEndsTheOtherBuildAndLeavesNothing) {
  const std::string peer =
      build(formatted("case $* in *--help*) ;; *) echo $$ >'{}'; exec sleep 60;; esac", path("pid")));
  fs::create_directory(path("tmp"));
  const std::string script = formatted(
      "TMPDIR='{0}' '{1}' bench add16 --rounds 1 --seconds 0.001 {2} >/dev/null 2>'{3}' & run=$!; "
      "while [ ! -s '{4}' ] && kill -0 $run; do sleep 0.05; done; kill -TERM $run; wait $run",
      path("tmp"), cli_path(), peer, path("err"), path("pid"));
  EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 143) << slurp(path("err"));
  EXPECT_TRUE(fs::is_empty(path("tmp")));
  const std::string alive = formatted("grep -qs '^State:.[^Z]' /proc/$(cat '{0}')/status", path("pid"));
  const std::string ends = "for i in $(seq 100); do " + alive + " || exit 0; sleep 0.1; done; exit 1";
  EXPECT_EQ(WEXITSTATUS(std::system(ends.c_str())), 0) << "it runs on";
}

TEST_F(BenchRlx, SaysWhatIsWrongWithTheProgram) {
  const auto expect = [&](const std::string& program, const std::string& part) {
    expect_complaint(bench("add16 --rounds 1 --peer rlx=" + program), 1, part);
  };
  expect(path("nowhere"), "there is no program " + path("nowhere"));
  expect(folder_.string(), "is a folder, not a program");
  expect(model_, "cannot be executed");
  expect("/bin/false", "is no program of rlx: asked for the help of its bench, it ended with code 1");
  pretend("garbage", "echo 'a line'; echo '{}'\n");
  expect(path("bin/garbage"), "is no program of rlx: it prints no help of a bench");
  pretend("endless", "while :; do echo 'a line that is long enough to be over soon'; done\n");
  expect(path("bin/endless"), "is no program of rlx");

  const auto expect_turn = [&](const std::string& script, const std::string& part) {
    const Result r = bench("add16 --rounds 1" + build("case $* in *--help*) ;; *) " + script + ";; esac"));
    expect_complaint(r, 1, part);
  };
  expect_turn("kill -SEGV $$", "older was ended by signal 11");
  expect_turn("echo 'cannot find a library' >&2; exit 127",
              "older ended with code 127: cannot find a library");
  expect_turn("echo '{\"cases\": []}'; exit", "older writes no report of what it measures");
  expect_turn("echo '{\"cases\": [{\"cpu_ms\": \"1\"}]}' >$report; exit", "older writes no report");
  expect_turn(formatted("'{}' \"$@\"; sed -i 's/\"adapter\": \"/&Other /' $report; exit", cli_path()),
              "older runs on Other ");
}

// --- Cases ---

TEST_F(BenchPeer, CasesWithAnOnnxFormAreThoseThatTheScriptMakes) {
  const std::string refused = bench("sort --peer ort").err;
  std::set<std::string> said, made;
  std::istringstream names(refused.substr(refused.find("one are: ") + 9));
  for (std::string name; names >> name;) said.insert(name.substr(0, name.find(',')));
  std::istringstream script(slurp(in_source("bench/ort_models.py")));
  for (std::string line; std::getline(script, line);) {
    if (line.starts_with("    \"") && line.contains("\": "))
      made.insert(line.substr(5, line.find("\": ") - 5));
  }
  EXPECT_EQ(said, made);
  const std::string help = rlx("bench --help").out;
  for (const std::string& name : said) EXPECT_TRUE(help.contains(" " + name + ": ")) << name;
}

TEST_F(BenchPeer, MisuseIsExitCodeTwo) {
  expect_complaint(bench("add16 --peer tensorflow"), 2,
                   "--peer is 'tensorflow'; the peers are: ort, ort-cpu, ggml, rlx=PROGRAM");
  expect_complaint(bench("add16 --peer rlx"), 2, "--peer is 'rlx'; the peers are");
  expect_complaint(bench("add16 --peer rlx="), 2, "the program is missing: rlx=PROGRAM");
  expect_complaint(bench("sort --growth --peer rlx=" + cli_path()), 2, "--peer and --growth");
  expect_complaint(bench(model_ + " --peer rlx=" + cli_path()), 2, "--dim length=N");
  expect_complaint(bench("sort --peer ort"), 2, "'sort' has no ONNX form; those that have one are: add16,");
  expect_complaint(bench("sort --growth --peer ort"), 2, "--peer and --growth");
  expect_complaint(bench("add16 --rounds 5"), 2, "--rounds is for --peer");
  expect_complaint(bench("add16 --peer ort --rounds 0"), 2, "--rounds is '0'");
  expect_complaint(bench("no_such_case --peer ort"), 2, "there is no case, network or file 'no_such_case'");
}

}  // namespace
}  // namespace rlx
