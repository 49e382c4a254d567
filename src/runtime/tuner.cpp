#include "runtime/tuner.h"

#include <algorithm>
#include <chrono>
#include <ranges>
#include <utility>

#include "base/fail.h"

namespace rlx {
namespace {

using Verdict = TuningRecord::Verdict;

// Estimates are off by less than that.
constexpr double kFarOff = 4;

// The plainest of an op's kernels: what the others are compared with.
const Candidate& plainest(const KernelProblem& p) {
  for (const std::string_view row : {"plain", "serial", "scalar"}) {
    const auto found =
        std::ranges::find_if(p.all, [&](const Candidate& c) { return c.row == row && c.form.empty(); });
    if (found != p.all.end()) return *found;
  }
  return p.taken;
}

}  // namespace

Tuner::Tuner(std::shared_ptr<DevicePlan> plan, TuningFile file, const Limits& limits)
    : plan_(std::move(plan)),
      file_(std::move(file)),
      scope_(tuning_scope(plan_->device()->info())),
      limits_(limits),
      problems_(kernel_problems(*plan_)) {
  // Nobody else is measuring: what is being tried was being tried when its process died.
  const auto is_trying = [](const auto& record) {
    return std::ranges::any_of(record.second.candidates | std::views::values, [](const auto& entry) {
      return entry.verdict == Verdict::trying || entry.verdict == Verdict::retrying;
    });
  };
  if (std::ranges::any_of(file_.read().all(), is_trying))
    file_.update([](TuningRecords& records) { records.settle_trials(); });
  for (const KernelProblem& p : problems_) {
    results_.push_back({.family = p.family,
                        .op = p.op,
                        .key = p.key,
                        .node = plan_->graph().node(plan_->work()[p.works[0]].node).name,
                        .nodes = std::ssize(p.works),
                        .static_choice = p.taken.text(),
                        .tuned_choice = p.taken.text()});
  }
}

// The plainest first, then the one that is in use, then the most promising of each kind, then others.
void Tuner::choose_entrants(const TuningRecord* record) {
  const KernelProblem& p = problems_[problem_];
  const auto is_in = [&](const std::string& name) {
    return std::ranges::contains(entrants_, name, &Entrant::name);
  };
  const auto is_excluded = [&](const std::string& name) {
    if (!record) return false;
    const auto entry = record->candidates.find(name);
    return entry != record->candidates.end() && TuningRecord::excludes(entry->second.verdict);
  };
  const auto add = [&](const Candidate& c, bool contends) {
    std::string name = c.text();
    if (is_in(name) || is_excluded(name)) return false;
    entrants_.push_back({.candidate = c, .name = std::move(name), .contends = contends});
    return true;
  };
  const double far = kFarOff * p.all.front().ns;
  const Candidate& plain = plainest(p);
  add(plain, plain.ns <= far || plain.text() == p.taken.text());
  int64_t contenders = std::ranges::count(entrants_, true, &Entrant::contends);
  contenders += add(p.taken, true) ? 1 : 0;
  const auto kind_is_in = [&](const Candidate& c) {
    return std::ranges::any_of(entrants_, [&](const Entrant& e) {
      return e.contends && e.candidate.row == c.row && e.candidate.form == c.form;
    });
  };
  for (const bool new_kinds : {true, false}) {
    for (const Candidate& c : p.all) {
      if (contenders >= limits_.candidates) return;
      if (c.ns > far || (new_kinds && kind_is_in(c))) continue;
      contenders += add(c, true) ? 1 : 0;
    }
  }
}

void Tuner::begin(size_t problem) {
  problem_ = problem;
  TunedProblem& result = results_[problem];
  const KernelProblem& p = problems_[problem];
  const TuningRecords known = file_.read();
  const TuningRecord* const record = known.find(scope_, p.family, p.key);
  if (record && !record->choice.empty()) {
    const auto time_of = [&](const std::string& name) {
      const auto entry = record->candidates.find(name);
      return entry == record->candidates.end() ? 0 : entry->second.ns;
    };
    result.tuned_choice = record->choice;
    result.static_ns = time_of(result.static_choice);
    result.tuned_ns = time_of(record->choice);
    result.left = "known";
    return;
  }
  if (p.forced) {
    result.left = "its kernel is forced";
    return;
  }
  choose_entrants(record);
  if (std::ranges::count(entrants_, true, &Entrant::contends) < 2) {
    entrants_.clear();
    result.left = "one candidate";
    return;
  }
  entrant_count_ = entrants_.size();
}

void Tuner::leave(std::string why) {
  results_[problem_].left = std::move(why);
  entrants_.clear();
  entrant_count_ = 0;
  at_ = 0;
  want_.clear();
  contest_.reset();
  contenders_.clear();
  trial_.reset();
}

Tuner::Kind Tuner::next() const {
  if (!trial_) return Kind::open;
  if (contest_) return Kind::time;
  return entrants_[at_].made ? Kind::first_run : Kind::make;
}

double Tuner::expected_ms() const {
  if (!contest_) return 0;
  const size_t contender = *contest_->next();
  const double ns = contest_->ns(contender);
  // A short one is repeated (NodeTrial::time).
  return std::max(ns > 0 ? ns : entrants_[contenders_[contender]].candidate.ns, 3e5) * 1.5e-6;
}

void Tuner::step() {
  switch (next()) {
    case Kind::open:
      return open_problem();
    case Kind::make:
      return make_entrant();
    case Kind::first_run:
      return run_entrant();
    case Kind::time:
      return time_entrant();
  }
}

void Tuner::record(const std::function<void(TuningRecord&)>& change) const {
  const KernelProblem& p = problems_[problem_];
  file_.update([&](TuningRecords& all) { change(all.at(scope_, p.family, p.key)); });
}

void Tuner::exclude(const std::string& candidate, Verdict verdict, const std::string& why) {
  record([&](TuningRecord& r) {
    r.candidates[candidate] = {.verdict = verdict};
    if (r.choice == candidate) r.choice.clear();
  });
  results_[problem_].excluded.push_back(formatted("{}: {}", candidate, why));
}

template <class F>
void Tuner::marked(const std::string& candidate, F&& action) {
  bool retries = false;
  record([&](TuningRecord& r) {
    TuningRecord::Entry& entry = r.candidates[candidate];
    retries = entry.verdict == Verdict::interrupted;
    entry = {.verdict = retries ? Verdict::retrying : Verdict::trying};
  });
  // That it was interrupted once is kept for its next step, and until it has a time.
  const auto unmark = [&] {
    record([&](TuningRecord& r) {
      if (retries) {
        r.candidates[candidate] = {.verdict = Verdict::interrupted};
      } else {
        r.candidates.erase(candidate);
      }
    });
  };
  try {
    action();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::device_lost) {
      exclude(candidate, Verdict::crashed, "the device was lost");
    } else {
      unmark();
    }
    throw;
  } catch (...) {
    unmark();
    throw;
  }
  unmark();
}

void Tuner::open_problem() try {
  trial_ = std::make_unique<NodeTrial>(*plan_, problems_[problem_].works[0]);
} catch (const Error& e) {
  if (e.kind() != ErrorKind::out_of_memory) throw;
  leave("the device has no room for it");
}

void Tuner::drop_current() {
  entrants_[at_].made.reset();
  if (++at_ < entrants_.size()) return;
  // All have been tried.
  for (size_t i = 0; i < entrants_.size(); ++i) {
    if (entrants_[i].fit && entrants_[i].contends) contenders_.push_back(i);
  }
  const auto taken = std::ranges::find(contenders_, results_[problem_].static_choice,
                                       [&](size_t i) -> const std::string& { return entrants_[i].name; });
  results_[problem_].tried = std::ssize(contenders_);
  if (contenders_.empty()) return leave("no candidate could be used");
  contest_.emplace(taken == contenders_.end() ? 0 : static_cast<size_t>(taken - contenders_.begin()),
                   contenders_.size(), limits_.seconds * 1e9);
}

void Tuner::make_entrant() {
  Entrant& e = entrants_[at_];
  try {
    marked(e.name, [&] { e.made = trial_->make(problems_[problem_], e.candidate); });
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::device_lost) throw;
    // Where the device has no room now it may have some later.
    if (error.kind() != ErrorKind::out_of_memory) exclude(e.name, Verdict::failed, error.what());
    drop_current();
  }
}

void Tuner::run_entrant() {
  Entrant& e = entrants_[at_];
  std::vector<NodeTrial::Result> got;
  std::optional<std::string> wrong;
  marked(e.name, [&] {
    if (tuning_hooks.before_first_run) tuning_hooks.before_first_run(*plan_->device(), e.name);
    got = trial_->run(*e.made);
  });
  if (tuning_hooks.results) tuning_hooks.results(e.name, got);
  // If the plainest cannot be used, the first that can takes its place.
  if (want_.empty()) {
    want_ = std::move(got);
  } else {
    wrong = trial_->difference(got, want_);
  }
  e.fit = !wrong;
  if (wrong) exclude(e.name, Verdict::wrong, *wrong);
  auto made = e.fit && e.contends ? std::move(e.made) : nullptr;
  const size_t at = at_;
  drop_current();
  // Unless the problem has been left.
  if (made && at < entrants_.size()) entrants_[at].made = std::move(made);
}

void Tuner::time_entrant() {
  const size_t contender = *contest_->next();
  const Entrant& e = entrants_[contenders_[contender]];
  const double before = contest_->ns(contender);
  double ns = trial_->time(*e.made, before > 0 ? before : e.candidate.ns);
  if (tuning_hooks.time) ns = tuning_hooks.time(e.name, ns);
  contest_->add(ns);
  if (!contest_->next()) finish();
}

void Tuner::finish() {
  TunedProblem& result = results_[problem_];
  const size_t winner = contest_->winner();
  result.tuned_choice = entrants_[contenders_[winner]].name;
  result.tuned_ns = contest_->ns(winner);
  for (size_t i = 0; i < contenders_.size(); ++i) {
    if (entrants_[contenders_[i]].name == result.static_choice) result.static_ns = contest_->ns(i);
  }
  record([&](TuningRecord& r) {
    for (size_t i = 0; i < contenders_.size(); ++i)
      r.candidates[entrants_[contenders_[i]].name] = {.ns = contest_->ns(i)};
    r.choice = result.tuned_choice;
  });
  leave("");
}

// --- In the background ---

namespace {

// Of a run. With it, none takes more than 1.2 times as long, whatever the steps take that are not foreseen.
constexpr double kShare = 1.0 / 7;

// Before any was seen: a look at the nodes and memory for one, WGSL that is compiled, and a first dispatch,
// for which software drivers compile once more.
double guess_ms(Tuner::Kind kind, bool software) {
  switch (kind) {
    case Tuner::Kind::open:
      return 5;
    case Tuner::Kind::make:
      return 40;
    case Tuner::Kind::first_run:
      return software ? 300 : 10;
    case Tuner::Kind::time:
      return 0;
  }
  return 0;
}

}  // namespace

double BackgroundTuner::now_ms() {
  if (tuning_hooks.now_ms) return tuning_hooks.now_ms();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool BackgroundTuner::begin_next() {
  while (!tuner_->is_under_way() && next_ < tuner_->problems().size()) tuner_->begin(next_++);
  return tuner_->is_under_way();
}

void BackgroundTuner::after_run(const std::shared_ptr<DevicePlan>& plan, double run_ms) {
  // Where sizes change from run to run, a problem would be another one after half of its steps.
  if (broken_ || run_ms <= 0 || !plan->lowered().values.empty()) return;
  const double start = now_ms();
  const double end = start + kShare * run_ms;
  const bool software = plan->device()->caps().software();
  const auto cost = [&](Tuner::Kind kind) {
    const double seen = cost_ms_[static_cast<size_t>(kind)];
    return seen > 0 ? seen : guess_ms(kind, software);
  };
  const auto fits = [&](Tuner::Kind kind, double at_least) {
    return now_ms() + std::max(cost(kind), at_least) <= end;
  };
  if ((!tuner_ || plan_.lock() != plan) && !fits(Tuner::Kind::open, 0)) return;
  const std::optional<FileLock> turn = FileLock::take(file_.turn(), false);
  if (!turn) return;
  try {
    if (!tuner_ || plan_.lock() != plan) {
      tuner_ = std::make_unique<Tuner>(plan, file_, Tuner::Limits());
      plan_ = plan;
      next_ = 0;
    }
    while (begin_next()) {
      const Tuner::Kind kind = tuner_->next();
      if (!fits(kind, tuner_->expected_ms())) break;
      const double before = now_ms();
      tuner_->step();
      double& most = cost_ms_[static_cast<size_t>(kind)];
      if (kind != Tuner::Kind::time) most = std::max(most, now_ms() - before);
    }
  } catch (const Error&) {
    // A run that has succeeded does not fail for this.
    broken_ = true;
    tuner_.reset();
  }
}

}  // namespace rlx
