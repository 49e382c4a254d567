// Times candidates for the problems of a plan, step by step, and keeps what it finds in a file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rlx/tuning.h"
#include "runtime/contest.h"
#include "runtime/node_trial.h"
#include "runtime/tuning_records.h"

namespace rlx {

// For tests, whose results must not depend on times: what a candidate is taken to have done.
struct TuningHooks {
  // Before it runs for the first time.
  std::function<void(gpu::Device& device, const std::string& candidate)> before_first_run = {};
  // What it computed.
  std::function<void(const std::string& candidate, std::vector<NodeTrial::Result>& results)> results = {};
  // How long it took.
  std::function<double(const std::string& candidate, double ns)> time = {};
  // Milliseconds, of background tuning.
  std::function<double()> now_ms = {};
};
inline TuningHooks tuning_hooks;

class Tuner {
 public:
  struct Limits {
    double seconds = 1;
    int64_t candidates = 6;
  };
  // What a step does that is known to take about as long each time.
  enum class Kind : uint8_t { open, make, first_run, time };

  // Whoever makes it, and its steps, has the file's turn (TuningFile::turn).
  Tuner(std::shared_ptr<DevicePlan> plan, TuningFile file, const Limits& limits);

  const std::vector<KernelProblem>& problems() const { return problems_; }
  // Begins with one of them, unless it has a record. No other one is under way.
  void begin(size_t problem);
  // Ends with it, without a record.
  void leave(std::string why);
  bool is_under_way() const { return entrant_count_ > 0; }

  // What the next step is, and for timing what it takes.
  Kind next() const;
  double expected_ms() const;
  void step();

  // What has been found out, by problem.
  const std::vector<TunedProblem>& results() const { return results_; }

 private:
  struct Entrant {
    Candidate candidate;
    std::string name;
    std::unique_ptr<NodeTrial::Made> made = {};
    bool contends = true;  // else it is there only to compare results with
    bool fit = false;      // ran, and computed what it should
  };

  void choose_entrants(const TuningRecord* record);
  void open_problem();
  void make_entrant();
  void run_entrant();
  void time_entrant();
  void finish();
  void exclude(const std::string& candidate, TuningRecord::Verdict verdict, const std::string& why);
  void drop_current();
  // Runs it with a mark in the file, which stays there if the process ends in it.
  template <class F>
  void marked(const std::string& candidate, F&& action);
  void record(const std::function<void(TuningRecord&)>& change) const;

  std::shared_ptr<DevicePlan> plan_;
  TuningFile file_;
  TuningScope scope_;
  Limits limits_;
  std::vector<KernelProblem> problems_;
  std::vector<TunedProblem> results_;

  size_t problem_ = 0;
  size_t entrant_count_ = 0;
  std::unique_ptr<NodeTrial> trial_;
  std::vector<Entrant> entrants_;
  size_t at_ = 0;  // the one that is being prepared
  std::vector<NodeTrial::Result> want_;
  std::optional<Contest> contest_;
  std::vector<size_t> contenders_;  // entrants, by their number in the contest
};

// After a run: makes steps that are expected to fit into a share of what it took. What they take is learned:
// one that took longer than it was expected to is not made again until a run is long enough.
class BackgroundTuner {
 public:
  explicit BackgroundTuner(TuningFile file) : file_(std::move(file)) {}
  static double now_ms();
  // With the store's mutex held; the plan has just run, and its weights are loaded.
  void after_run(const std::shared_ptr<DevicePlan>& plan, double run_ms);
  // The plan is about to go.
  void forget_plan() { tuner_.reset(); }

 private:
  bool begin_next();

  TuningFile file_;
  std::weak_ptr<DevicePlan> plan_;
  std::unique_ptr<Tuner> tuner_;
  size_t next_ = 0;
  bool broken_ = false;     // the file cannot be written, or the device has failed
  double cost_ms_[4] = {};  // by Tuner::Kind: the most that one took
};

}  // namespace rlx
