// What is kept of measured times, how a contest is decided, and which choice follows; no device, no clock.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <vector>

#include "base/format.h"
#include "kernels/choices.h"
#include "kernels/variant.h"
#include "rlx/error.h"
#include "runtime/contest.h"
#include "runtime/known_choices.h"
#include "runtime/tuning_records.h"
#include "tests/support/message.h"

namespace rlx {
namespace {

using Verdict = TuningRecord::Verdict;

const TuningScope kHere{.adapter = "vulkan: a", .driver = "1", .kernels = "k"};
const TuningScope kElsewhere{.adapter = "vulkan: a", .driver = "2", .kernels = "k"};

TuningRecords some_records() {
  TuningRecords out;
  out.at(kHere, "product", "m<=32") = {
      .choice = "rows ROWS=4",
      .candidates = {
          {"rows ROWS=4", {.ns = 100.5}}, {"tiled", {.ns = 200}}, {"taps", {.verdict = Verdict::wrong}}}};
  out.at(kHere, "softmax", "<=64") = {.candidates = {{"held", {.verdict = Verdict::trying}}}};
  out.at(kElsewhere, "product", "m<=32") = {.choice = "tiled", .candidates = {{"tiled", {.ns = 7}}}};
  return out;
}

class TuningFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / formatted("rlx-tuning-test-{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

// --- Records ---

TEST(TuningRecords, SurviveAsText) {
  const TuningRecords records = some_records();
  const TuningRecords again = TuningRecords::parse(records.text());
  EXPECT_EQ(again.all(), records.all());
  EXPECT_EQ(again.text(), records.text());
  ASSERT_TRUE(again.find(kHere, "product", "m<=32"));
  EXPECT_EQ(again.find(kHere, "product", "m<=32")->candidates.at("taps").verdict, Verdict::wrong);
  EXPECT_EQ(again.find(kElsewhere, "softmax", "<=64"), nullptr);
}

TEST(TuningRecords, WhatIsBrokenIsPassedOver) {
  const std::string whole = some_records().text();
  for (size_t length = 0; length + 2 < whole.size(); length += 7)
    EXPECT_EQ(TuningRecords::parse(whole.substr(0, length)).size(), 0u) << length;
  for (
      const char* text :
      {"", "[]", "3", "{}", R"({"rlx_tuning": 1})", R"({"rlx_tuning": 1, "records": {}})",
       R"({"rlx_tuning": 1, "records": [3, {}, {"adapter": 1}]})",
       // Another format, and records with one thing wrong each.
       R"({"rlx_tuning": 2, "records": [{"adapter":"a","driver":"d","kernels":"k","family":"f","key":"y","candidates":{"x":1}}]})",
       R"({"rlx_tuning": 1, "records": [{"adapter":"a","driver":"d","kernels":"k","family":"f","key":"y","candidates":{"x":-1}}]})",
       R"({"rlx_tuning": 1, "records": [{"adapter":"a","driver":"d","kernels":"k","family":"f","key":"y","candidates":{"x":"lost"}}]})",
       R"({"rlx_tuning": 1, "records": [{"adapter":"a","driver":"d","kernels":"k","family":"f","key":"y","choice":"z","candidates":{"x":1}}]})",
       R"({"rlx_tuning": 1, "records": [{"adapter":"a","driver":"d","kernels":"k","family":"f","key":"y","choice":"x","candidates":{"x":"wrong"}}]})"})
    EXPECT_EQ(TuningRecords::parse(text).size(), 0u) << text;
  // One that is right beside one that is not.
  EXPECT_EQ(
      TuningRecords::parse(
          R"({"rlx_tuning": 1, "records": [{}, {"adapter":"a","driver":"d","kernels":"k","family":"f","key":"y","choice":"x","candidates":{"x":1}}]})")
          .size(),
      1u);
}

TEST(TuningRecords, AreMergedWithTheirOwnFirst) {
  TuningRecords ours = some_records();
  TuningRecords theirs;
  theirs.at(kHere, "product", "m<=32") = {.choice = "tiled",
                                          .candidates = {{"tiled", {.ns = 1}}, {"plain", {.ns = 300}}}};
  theirs.at(kHere, "softmax", "<=8") = {.choice = "serial", .candidates = {{"serial", {.ns = 5}}}};
  ours.merge(theirs);
  EXPECT_EQ(ours.size(), 4u);
  const TuningRecord& product = *ours.find(kHere, "product", "m<=32");
  EXPECT_EQ(product.choice, "rows ROWS=4");
  EXPECT_EQ(product.candidates.at("tiled").ns, 200);
  EXPECT_EQ(product.candidates.at("plain").ns, 300);
  // What anybody has found to be wrong is no choice any more, and stays so.
  TuningRecords wrong;
  wrong.at(kHere, "product", "m<=32").candidates["rows ROWS=4"] = {.verdict = Verdict::crashed};
  ours.merge(wrong);
  EXPECT_EQ(ours.find(kHere, "product", "m<=32")->choice, "");
  ours.merge(some_records());
  EXPECT_EQ(ours.find(kHere, "product", "m<=32")->candidates.at("rows ROWS=4").verdict, Verdict::crashed);
  EXPECT_EQ(ours.find(kHere, "product", "m<=32")->choice, "");
}

TEST(TuningRecords, TwoTrialsWithoutAnEndAreACrash) {
  TuningRecords records = some_records();
  const auto held = [&]() -> TuningRecord::Entry& {
    return records.at(kHere, "softmax", "<=64").candidates.at("held");
  };
  records.settle_trials();
  EXPECT_EQ(held().verdict, Verdict::interrupted);
  records.settle_trials();
  EXPECT_EQ(held().verdict, Verdict::interrupted);
  held().verdict = Verdict::retrying;
  records.settle_trials();
  EXPECT_EQ(held().verdict, Verdict::crashed);
  EXPECT_EQ(records.find(kHere, "product", "m<=32")->candidates.at("tiled").verdict, Verdict::timed);
}

TEST(TuningRecords, AreForOneAdapterAndDriver) {
  const AdapterInfo here{.name = "a", .backend = "vulkan", .driver = "1"};
  const TuningScope scope = tuning_scope(here);
  EXPECT_EQ(scope, tuning_scope(here));
  for (const auto& change : {+[](AdapterInfo& i) { i.name = "b"; }, +[](AdapterInfo& i) { i.driver = "2"; },
                             +[](AdapterInfo& i) { i.backend = "metal"; }}) {
    AdapterInfo other = here;
    change(other);
    EXPECT_NE(scope, tuning_scope(other));
  }
  EXPECT_FALSE(scope.kernels.empty());
}

// --- The file ---

TEST_F(TuningFolder, TwoWritersLoseNothing) {
  const TuningFile file(path("deep/tuning.json"));
  EXPECT_EQ(file.read().size(), 0u);
  const auto write = [&](const char* family) {
    for (int i = 0; i < 20; ++i) {
      file.update([&](TuningRecords& records) {
        records.at(kHere, family, std::to_string(i)) = {.choice = "x",
                                                        .candidates = {{"x", {.ns = 1.0 * i}}}};
      });
      // Never half a file, and never fewer records than this thread has written.
      EXPECT_GE(file.read().size(), static_cast<size_t>(i + 1));
    }
  };
  std::thread other(write, "a");
  write("b");
  other.join();
  EXPECT_EQ(file.read().size(), 40u);
}

TEST_F(TuningFolder, WhatCannotBeWrittenIsAnError) {
  std::ofstream(path("file")) << "x";
  const TuningFile file(path("file/tuning.json"));
  EXPECT_EQ(file.read().size(), 0u);
  try {
    file.update([](TuningRecords&) {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_file);
    EXPECT_TRUE(std::string(e.what()).contains(file.path())) << e.what();
  }
  EXPECT_FALSE(FileLock::take(file.turn(), true));
}

TEST_F(TuningFolder, OneMeasuresAtATime) {
  const TuningFile file(path("tuning.json"));
  std::optional<FileLock> first = FileLock::take(file.turn(), false);
  ASSERT_TRUE(first);
  EXPECT_FALSE(FileLock::take(file.turn(), false));
  // Others may still add what they have.
  file.update([](TuningRecords& records) { records = some_records(); });
  EXPECT_EQ(file.read().size(), 3u);
  first.reset();
  EXPECT_TRUE(FileLock::take(file.turn(), false));
}

// --- Contests ---

// Runs a contest between contenders with these times, of which `noise` takes away nothing.
size_t winner(size_t incumbent, const std::vector<double>& times, double budget = 1e9,
              std::vector<int>* turns = nullptr) {
  Contest contest(incumbent, times.size(), budget);
  int disturbance = 0;
  while (const std::optional<size_t> i = contest.next()) {
    if (turns) ++turns->at(*i);
    // Every third time is disturbed.
    contest.add(times[*i] * (++disturbance % 3 == 0 ? 1.5 : 1));
  }
  return contest.winner();
}

TEST(Contest, IsWonByTheFastest) {
  EXPECT_EQ(winner(0, {100, 50, 200}), 1u);
  EXPECT_EQ(winner(2, {100, 50, 200, 49}), 3u);
  EXPECT_EQ(winner(0, {100}), 0u);
}

TEST(Contest, KeepsTheIncumbentUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(winner(0, {100, 99}), 0u);
  EXPECT_EQ(winner(1, {100, 99}), 1u);
  EXPECT_EQ(winner(0, {100, 90}), 1u);
}

TEST(Contest, EndsEarlyForTheSlow) {
  std::vector<int> turns(3);
  EXPECT_EQ(winner(0, {100, 99, 1000}, 1e9, &turns), 0u);
  EXPECT_EQ(turns[2], 3);
  EXPECT_EQ(turns[0], turns[1]);
  EXPECT_GT(turns[0], 3);
}

TEST(Contest, EndsWithItsBudget) {
  std::vector<int> turns(2);
  EXPECT_EQ(winner(0, {100, 90}, 1, &turns), 1u);
  EXPECT_EQ(turns, (std::vector<int>{3, 3}));
}

// --- Choices ---

struct Problem {
  std::string name = "p";
  std::string key() const { return name; }
};
using Table = Variant<Problem, bool>;

constexpr auto kNone = [](Lowering&, const Problem&, const Candidate&) { return true; };
const Table kTable[] = {
    {"fast", always, [](const Target&, const Problem&) { return one_candidate(1); }, kNone},
    {"slow", always, [](const Target&, const Problem&) { return one_candidate(2); }, kNone},
    {"slowest", always, [](const Target&, const Problem&) { return one_candidate(3); }, kNone}};

Candidate chosen(Target& target, const Problem& problem = {}) {
  return choose(target, "op", std::span<const Table>(kTable), problem).candidate;
}

TuningRecords records_of(TuningRecord record) {
  TuningRecords out;
  out.at(kHere, "op", "p exact") = std::move(record);
  return out;
}

std::shared_ptr<const KnownChoices> known(TuningRecords records, const KernelChoices& replayed = {}) {
  return std::make_shared<const KnownChoices>(replayed, std::move(records), kHere);
}

TEST(KnownChoices, FollowRecords) {
  Target target;
  target.chooser = known({});
  EXPECT_EQ(chosen(target).row, "fast");
  EXPECT_EQ(chosen(target).reason, ChoiceReason::estimated);
  target.chooser =
      known(records_of({.choice = "slow", .candidates = {{"slow", {.ns = 50}}, {"fast", {.ns = 70}}}}));
  EXPECT_EQ(chosen(target).row, "slow");
  EXPECT_EQ(chosen(target).reason, ChoiceReason::measured);
  EXPECT_EQ(chosen(target).ns, 50);
  // Another problem, and another precision, which is another key.
  EXPECT_EQ(chosen(target, {"q"}).row, "fast");
  target.precision = Precision::fast;
  EXPECT_EQ(chosen(target).row, "fast");
  target.precision = Precision::exact;
  // What is forced comes first.
  target.forced = {{"op", "slowest"}};
  EXPECT_EQ(chosen(target).row, "slowest");
  EXPECT_EQ(chosen(target).reason, ChoiceReason::forced);
}

// It is settled by the record, not by the least time: the difference was not clear.
TEST(KnownChoices, AreThoseOfTheRecordWhateverTheTimes) {
  Target target;
  target.chooser =
      known(records_of({.choice = "slow", .candidates = {{"slow", {.ns = 50}}, {"fast", {.ns = 49.5}}}}));
  EXPECT_EQ(chosen(target).row, "slow");
}

TEST_F(TuningFolder, KeepsWhatItCannotRead) {
  const std::string path = (folder_ / "tuning.json").string();
  const std::string newer = "{\"rlx_tuning\": 2, \"records\": []}";
  std::ofstream(path) << newer;
  const TuningFile file(path);
  EXPECT_FALSE(file.is_ours());
  file.update([](TuningRecords& records) { records = some_records(); });
  EXPECT_TRUE(file.is_ours());
  EXPECT_EQ(file.read().size(), 3u);
  std::stringstream kept;
  kept << std::ifstream(path + ".old").rdbuf();
  EXPECT_EQ(kept.str(), newer);
}

TEST_F(TuningFolder, WritesOverNothingButFiles) {
  const std::string path = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_SAYS(TuningFile(path).update([](TuningRecords&) {}), "since it is no file");
  EXPECT_EQ(TuningFile(path).read().size(), 0u);  // and does not wait for a writer
}

TEST(KnownChoices, AreNeverWhatIsExcluded) {
  for (const Verdict verdict : {Verdict::crashed, Verdict::wrong, Verdict::failed, Verdict::trying}) {
    Target target;
    target.chooser = known(records_of({.candidates = {{"fast", {.verdict = verdict}}}}));
    EXPECT_EQ(chosen(target).row, "slow") << to_string(verdict);
    EXPECT_EQ(chosen(target).reason, ChoiceReason::estimated);
    // Nor is it replayed.
    KernelChoices before;
    before.add("op", "p exact", "fast");
    target.chooser = known(records_of({.candidates = {{"fast", {.verdict = verdict}}}}), before);
    EXPECT_EQ(chosen(target).row, "slow") << to_string(verdict);
  }
}

TEST(KnownChoices, AreReplayed) {
  Target target;
  target.forced = {{"op", "slowest"}};
  const auto first = known({});
  target.chooser = first;
  chosen(target);
  chosen(target, {"q"});
  const KernelChoices kept = KernelChoices::parse(first->choices());
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept.find("op", "p exact"), "slowest");
  target.forced.clear();
  target.chooser = known(
      records_of({.choice = "slow", .candidates = {{"slow", {.ns = 50}}, {"slowest", {.ns = 9}}}}), kept);
  EXPECT_EQ(chosen(target).row, "slowest");
  EXPECT_EQ(chosen(target).reason, ChoiceReason::replayed);
  // A kernel that there is no more.
  KernelChoices gone;
  gone.add("op", "p exact", "fastest of all");
  target.chooser = known({}, gone);
  EXPECT_EQ(chosen(target).row, "fast");
  EXPECT_EQ(chosen(target).reason, ChoiceReason::estimated);
}

TEST(KernelChoices, AreLinesOfText) {
  KernelChoices choices;
  choices.add("product", "m<=32 n4 exact", "rows ROWS=4");
  choices.add("product", "m<=32 n4 exact", "tiled");
  choices.add("softmax", "", "held");
  EXPECT_EQ(choices.text(), "rlx choices 1\nproduct\tm<=32 n4 exact\ttiled\nsoftmax\t\theld\n");
  EXPECT_EQ(KernelChoices::parse(choices.text()).text(), choices.text());
  EXPECT_EQ(choices.find("softmax", "x"), "");
  for (const char* text :
       {"", "rlx choices 2\n", "choices", "rlx choices 1\na\tb\n", "rlx choices 1\na\tb\tc\td\n"}) {
    try {
      KernelChoices::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::invalid_argument) << text;
    }
  }
}

}  // namespace
}  // namespace rlx
