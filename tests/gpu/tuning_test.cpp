// Tuning on a device, where hooks say what candidates did: which one is fastest, wrong or fatal.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "rlx/error.h"
#include "rlx/rlx.h"
#include "runtime/tuner.h"
#include "runtime/tuning_records.h"
#include "tests/support/compare.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;
using Verdict = TuningRecord::Verdict;

class Tuning : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("RLX_NO_TUNE", "0", 1);
    folder_ = fs::temp_directory_path() / formatted("rlx-gpu-tuning-test-{}", getpid());
    fs::create_directories(folder_);
    if (!open().caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  }
  void TearDown() override {
    tuning_hooks = {};
    setenv("RLX_NO_TUNE", "1", 1);
    fs::remove_all(folder_);
  }

  Device open(const std::string& name = "cache") const {
    return Device::open({.cache_dir = (folder_ / name).string()});
  }
  TuningFile file() const { return TuningFile((folder_ / "cache/tuning.json").string()); }

  static Graph graph() {
    Graph g;
    const Value x = g.input("x", DType::f32, {24, 40});
    const Value w = g.input("w", DType::f32, {40, 48});
    g.output("y", matmul(x, w));
    return g;
  }
  static NamedTensors inputs() {
    std::vector<float> x(24 * 40), w(40 * 48);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
    return {{"x", Tensor::of({24, 40}, x)}, {"w", Tensor::of({40, 48}, w)}};
  }
  static CompileOptions to_tune() { return {.deterministic = false}; }
  static TuneReport tune_once(const Device& device, std::function<void(Executable&)> also = {}) {
    Executable exe = compile(graph(), device, to_tune());
    if (also) also(exe);
    return tune(exe, inputs(), {.seconds = 0.001, .candidates = 4, .least_share = 0});
  }

  // How the product is computed.
  static StepReport step(const Device& device, const CompileOptions& options = {}) {
    const Executable exe = compile(graph(), device, options);
    for (const StepReport& s : exe.plan_report().run) {
      if (s.op == "matmul") return s;
    }
    ADD_FAILURE() << "there is no product";
    return {};
  }

  // The first candidate that is timed, besides the one that is chosen by estimate, is the fastest.
  void favour_another() {
    const std::string usual = step(open(), {.tuning = {.records = false}}).variant;
    tuning_hooks.time = [this, usual](const std::string& name, double) {
      timed_.insert(name);
      if (favourite_.empty() && name != usual) favourite_ = name;
      return name == favourite_ ? 10.0 : 1000.0;
    };
  }

  // The favourite, on which a process that is gone has left this verdict and nothing else.
  std::string left_behind(Verdict verdict) {
    favour_another();
    tune_once(open());
    file().update([&](TuningRecords& all) {
      for (const auto& [problem, record] : TuningRecords(all).all()) {
        if (!record.candidates.contains(favourite_)) continue;
        all.at(problem.scope, problem.family,
               problem.key) = {.candidates = {{favourite_, {.verdict = verdict}}}};
      }
    });
    return favourite_;
  }

  // Verdict of a candidate in the record of the product.
  std::optional<Verdict> verdict_on(const std::string& candidate) const {
    for (const auto& [problem, record] : file().read().all()) {
      const auto entry = record.candidates.find(candidate);
      if (entry != record.candidates.end()) return entry->second.verdict;
    }
    return std::nullopt;
  }

  fs::path folder_;
  std::string favourite_;
  std::set<std::string> timed_;
};

void expect_error(ErrorKind kind, const std::string& part, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected '" << part << "'";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    EXPECT_TRUE(std::string(e.what()).contains(part)) << e.what();
  }
}

TEST_F(Tuning, ChoosesWhatIsMeasuredToBeFastest) {
  favour_another();
  const Device device = open();
  const StepReport before = step(device);
  EXPECT_EQ(before.reason, "estimate");
  EXPECT_GT(before.expected_ns, 0);
  int64_t told = 0;
  Executable exe = compile(graph(), device, to_tune());
  const TuneReport report =
      tune(exe, inputs(),
           {.seconds = 0.001, .candidates = 4, .least_share = 0, .progress = [&](const TuneProgress& p) {
              told += p.problems > 0 ? 1 : 0;
            }});
  EXPECT_EQ(told, std::ssize(report.problems));
  EXPECT_EQ(report.file, file().path());
  EXPECT_GT(report.run_ms, 0);
  const auto product = std::ranges::find(report.problems, "matmul", &TunedProblem::op);
  ASSERT_NE(product, report.problems.end());
  EXPECT_EQ(product->family, "product");
  EXPECT_EQ(product->static_choice, before.variant);
  EXPECT_EQ(product->tuned_choice, favourite_);
  EXPECT_EQ(product->static_ns, 1000);
  EXPECT_EQ(product->tuned_ns, 10);
  EXPECT_EQ(product->tried, 4);
  EXPECT_TRUE(product->excluded.empty()) << product->excluded[0];

  const StepReport after = step(device);  // deterministic, as by default: it reads records
  EXPECT_EQ(after.variant, favourite_);
  EXPECT_EQ(after.reason, "measurement");
  EXPECT_EQ(after.expected_ns, 10);
  Executable tuned = compile(graph(), device);
  Executable usual = compile(graph(), device, {.tuning = {.records = false}});
  EXPECT_EQ(tuned.run(inputs()).at("y"), usual.run(inputs()).at("y"));  // whole numbers
}

TEST_F(Tuning, MeasuresNothingTwice) {
  favour_another();
  EXPECT_GT(tune_once(open()).measured, 0);
  tuning_hooks.time = [](const std::string& name, double ns) {
    ADD_FAILURE() << name << " is timed again";
    return ns;
  };
  // As another process would: another device, which knows nothing but the folder.
  const TuneReport again = tune_once(open());
  EXPECT_EQ(again.measured, 0);
  ASSERT_FALSE(again.problems.empty());
  EXPECT_EQ(again.problems[0].left, "known");
  EXPECT_EQ(again.problems[0].tuned_choice, favourite_);
  EXPECT_EQ(again.problems[0].tuned_ns, 10);
}

TEST_F(Tuning, IsIgnoredOnRequest) {
  favour_another();
  tune_once(open());
  const Device device = open();
  EXPECT_EQ(step(device).variant, favourite_);
  EXPECT_EQ(step(device, {.tuning = {.records = false}}).reason, "estimate");
  setenv("RLX_NO_TUNE", "1", 1);
  EXPECT_EQ(step(device).reason, "estimate");
  expect_error(ErrorKind::invalid_argument, "RLX_NO_TUNE", [&] { tune_once(device); });
}

TEST_F(Tuning, RecordsCanBeShipped) {
  favour_another();
  tune_once(open());
  const std::string shipped = (folder_ / "shipped.json").string();
  fs::copy_file(file().path(), shipped);
  const Device elsewhere = open("other");
  EXPECT_EQ(step(elsewhere).reason, "estimate");
  EXPECT_EQ(step(elsewhere, {.tuning = {.files = {shipped}}}).variant, favourite_);
  EXPECT_EQ(step(elsewhere, {.tuning = {.files = {(folder_ / "no such file").string()}}}).reason, "estimate");
  setenv("RLX_TUNING_FILES", ("missing.json," + shipped).c_str(), 1);
  EXPECT_EQ(step(elsewhere).variant, favourite_);
  unsetenv("RLX_TUNING_FILES");
}

TEST_F(Tuning, OtherDriversAndVersionsDoNotCount) {
  favour_another();
  tune_once(open());
  const TuningRecords records = file().read();
  for (const auto& change :
       {+[](TuningScope& s) { s.driver += "x"; }, +[](TuningScope& s) { s.kernels += "x"; },
        +[](TuningScope& s) { s.adapter += "x"; }}) {
    TuningRecords others;
    for (const auto& [problem, record] : records.all()) {
      TuningScope scope = problem.scope;
      change(scope);
      others.at(scope, problem.family, problem.key) = record;
    }
    file().update([&](TuningRecords& all) { all = others; });
    EXPECT_EQ(step(open()).reason, "estimate");
  }
}

TEST_F(Tuning, WrongNumbersAreNeverChosen) {
  favour_another();
  std::string first;
  tuning_hooks.results = [&](const std::string& name, std::vector<NodeTrial::Result>& results) {
    if (first.empty()) first = name;  // the plainest, with which others are compared
    if (favourite_.empty() && name != first) favourite_ = name;
    if (name == favourite_) results[0].numbers[17] += 0.01;
  };
  const TuneReport report = tune_once(open());
  ASSERT_FALSE(favourite_.empty());
  ASSERT_EQ(report.problems[0].excluded.size(), 1u);
  EXPECT_TRUE(report.problems[0].excluded[0].starts_with(favourite_ + ": element 17 of output 0 is "))
      << report.problems[0].excluded[0];
  EXPECT_EQ(verdict_on(favourite_), Verdict::wrong);
  EXPECT_FALSE(timed_.contains(favourite_));
  EXPECT_NE(step(open()).variant, favourite_);
  // Not even where estimates prefer it and nothing else was measured.
  EXPECT_FALSE(report.problems[0].tuned_choice.empty());
  EXPECT_NE(report.problems[0].tuned_choice, favourite_);
}

TEST_F(Tuning, WhatLosesTheDeviceIsNeverTriedAgain) {
  std::string fatal;
  std::set<std::string> ran;
  tuning_hooks.before_first_run = [&](gpu::Device& device, const std::string& name) {
    ran.insert(name);
    if (ran.size() == 2) fatal = name;
    // While it runs, others see that it is being tried.
    EXPECT_EQ(verdict_on(name), Verdict::trying);
    if (name == fatal) device.force_loss();
  };
  expect_error(ErrorKind::device_lost, "", [&] { tune_once(open()); });
  EXPECT_EQ(verdict_on(fatal), Verdict::crashed);
  ran = {"one", "two"};
  EXPECT_GT(tune_once(open()).measured, 0);
  EXPECT_FALSE(ran.contains(fatal));
  EXPECT_EQ(verdict_on(fatal), Verdict::crashed);
  EXPECT_NE(step(open()).variant, fatal);
}

TEST_F(Tuning, ASecondTrialThatAProcessLeftBehindCountsAsACrash) {
  const std::string left = left_behind(Verdict::retrying);
  EXPECT_NE(step(open()).variant, left);
  timed_.clear();
  EXPECT_EQ(tune_once(open()).measured, 1);
  EXPECT_EQ(verdict_on(left), Verdict::crashed);
  EXPECT_FALSE(timed_.contains(left));
}

// It may have been interrupted by the user. Until its first run is over, another end is the second one.
TEST_F(Tuning, AFirstTrialThatAProcessLeftBehindIsMadeAgain) {
  const std::string left = left_behind(Verdict::trying);
  std::set<std::string> ran;
  tuning_hooks.before_first_run = [&](gpu::Device&, const std::string& name) {
    ran.insert(name);
    EXPECT_EQ(verdict_on(name), name == left ? Verdict::retrying : Verdict::trying) << name;
  };
  EXPECT_EQ(tune_once(open()).measured, 1);
  EXPECT_TRUE(ran.contains(left));
  EXPECT_EQ(verdict_on(left), Verdict::timed);
}

TEST_F(Tuning, NeedsAnExecutableThatNeedNotBeDeterministic) {
  const Device device = open();
  Executable exe = compile(graph(), device);
  expect_error(ErrorKind::invalid_argument, "never measures", [&] { tune(exe, inputs()); });
  expect_error(ErrorKind::invalid_argument, "never measures",
               [&] { compile(graph(), device, {.tuning = {.background = true}}); });
  expect_error(ErrorKind::invalid_argument, "compares nothing", [&] {
    Executable other = compile(graph(), device, to_tune());
    tune(other, inputs(), {.candidates = 1});
  });
  Executable nowhere = compile(graph(), Device::open({.disk_cache = false}), to_tune());
  expect_error(ErrorKind::invalid_argument, "cache folder", [&] { tune(nowhere, inputs()); });
  EXPECT_FALSE(fs::exists(file().path()));
}

// A clock that only a run moves on.
class BackgroundTuning : public Tuning {
 protected:
  void SetUp() override {
    Tuning::SetUp();
    if (IsSkipped()) return;
    tuning_hooks.now_ms = [this] {
      if (++looks_ == 2) now_ms_ += run_ms_;
      return now_ms_;
    };
  }
  void run(Executable& exe, double ms) {
    looks_ = 0;
    run_ms_ = ms;
    exe.run(inputs());
  }
  static CompileOptions options() { return {.deterministic = false, .tuning = {.background = true}}; }

  int looks_ = 0;
  double now_ms_ = 0, run_ms_ = 0;
};

TEST_F(BackgroundTuning, MeasuresWhileRunsAreLongEnough) {
  favour_another();
  const Device device = open();
  Executable exe = compile(graph(), device, options());
  // Nothing fits in after a short run; after a longer one, memory for a problem, but no kernel.
  run(exe, 1);
  run(exe, 70);
  EXPECT_EQ(file().read().size(), 0u);
  for (int i = 0; i < 3; ++i) run(exe, 10000);
  EXPECT_FALSE(favourite_.empty());
  EXPECT_EQ(step(device).variant, favourite_);
  EXPECT_EQ(step(device).reason, "measurement");
  // The executable itself goes on as it was, and all has been measured.
  EXPECT_NE(exe.plan_report().run[0].variant, favourite_);
  timed_.clear();
  run(exe, 10000);
  EXPECT_TRUE(timed_.empty());
}

// A step that takes longer than expected is not made again until it fits.
TEST_F(BackgroundTuning, StaysWithinItsShare) {
  std::vector<double> begun;
  tuning_hooks.before_first_run = [&](gpu::Device&, const std::string&) {
    begun.push_back(run_ms_);
    now_ms_ += 500;
  };
  Executable exe = compile(graph(), open(), options());
  for (int i = 0; i < 5; ++i) run(exe, 2800);  // 400 for tuning, 300 expected of a first run
  EXPECT_EQ(begun, (std::vector<double>{2800}));
  run(exe, 3600);
  EXPECT_EQ(begun, (std::vector<double>{2800, 3600}));
}

TEST_F(BackgroundTuning, LeavesTheFileToWhoeverMeasures) {
  Executable exe = compile(graph(), open(), options());
  {
    const std::optional<FileLock> turn = FileLock::take(file().turn(), false);
    ASSERT_TRUE(turn);
    run(exe, 10000);
    EXPECT_EQ(file().read().size(), 0u);
  }
  run(exe, 10000);
  EXPECT_GT(file().read().size(), 0u);
}

TEST_F(BackgroundTuning, DoesNotFailRuns) {
  tuning_hooks.before_first_run = [&](gpu::Device&, const std::string&) {
    throw Error(ErrorKind::internal, "for a test");
  };
  Executable exe = compile(graph(), open(), options());
  run(exe, 10000);
  run(exe, 10000);
  EXPECT_EQ(exe.run(inputs()).at("y").elements(), 24 * 48);
}

// --- Choices ---

TEST_F(Tuning, ChoicesAreReplayed) {
  const Device device = open();
  const Executable forced = compile(graph(), device, {.kernels = {{"matmul", "plain"}}});
  const std::string choices = forced.choices();
  EXPECT_EQ(step(device, {.kernels = {{"matmul", "plain"}}}).reason, "force");
  const StepReport again = step(device, {.choices = choices});
  EXPECT_EQ(again.variant, "plain");
  EXPECT_EQ(again.reason, "replay");
  expect_error(ErrorKind::invalid_argument, "no choices of kernels", [&] { step(device, {.choices = "x"}); });
}

}  // namespace
}  // namespace rlx
