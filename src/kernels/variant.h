// Tables of kernels: an op with several lists them as rows, and the cheapest that applies is used.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.h"
#include "base/inline_vector.h"
#include "kernels/target.h"

namespace rlx {

class Lowering;

// Values of a kernel's spec constants, none if there is nothing to vary, and the time it takes with them.
struct Candidate {
  struct Constant {
    std::string_view name;
    uint32_t value;
  };
  double ns = 0;
  InlineVector<Constant, 4> constants = {};

  uint32_t at(std::string_view name) const;
  std::string text() const;  // "ROWS=16 LANES=8"
};
// Most rows have a single candidate.
std::vector<Candidate> one_candidate(double ns);

// What was chosen while a node was lowered, so that the same is chosen when it is lowered again for a length
// that has grown.
class ChoiceLog {
 public:
  struct Chosen {
    std::string op;
    std::string_view row;
    Candidate candidate;
  };
  void replay() {
    replays_ = true;
    next_ = 0;
  }
  // While replaying: the next choice, null if it was for another op or there is none.
  const Chosen* next(std::string_view op) {
    if (!replays_ || next_ == made_.size() || made_[next_].op != op) return nullptr;
    return &made_[next_++];
  }
  void add(std::string_view op, std::string_view row, const Candidate& candidate) {
    if (!replays_) made_.push_back({std::string(op), row, candidate});
  }

 private:
  std::vector<Chosen> made_;
  size_t next_ = 0;
  bool replays_ = false;
};

// One row of an op's table of kernels. `Problem` is what the op knows about the case; problems with the same
// key() take about the same time. `Made` is what the row returns: a dispatch, or, if it emits dispatches
// itself, whether it could. No part has a default, so that every row is complete.
template <class Problem, class Made>
struct Variant {
  using Applies = bool (*)(const Target& target, const Problem& problem);
  using Candidates = std::vector<Candidate> (*)(const Target& target, const Problem& problem);
  using Make = Made (*)(Lowering& l, const Problem& problem, const Candidate& candidate);

  constexpr Variant(std::string_view name, Applies applies, Candidates candidates, Make make)
      : name(name), applies(applies), candidates(candidates), make(make) {}

  std::string_view name;
  Applies applies;
  Candidates candidates;  // at least one, with estimated nanoseconds
  Make make;
};

// For rows that can handle every case.
template <class Problem>
bool always(const Target&, const Problem&) {
  return true;
}

// A row and the constants to make its kernel with.
template <class Problem, class Made>
struct Choice {
  const Variant<Problem, Made>* row = nullptr;
  Candidate candidate = {};

  // Calls the row's `make`. Its dispatches are labelled with the row's name.
  Made make(Lowering& l, const Problem& problem) const;
};

// What was chosen before, if the target has a log that says so, and it still applies; the forced row if it
// applies; else the cheapest, with its cheapest candidate. Measured costs replace the
// estimates of the table where there are any.
template <class Problem, class Made>
Choice<Problem, Made> choose(const Target& target, std::string_view op,
                             std::span<const Variant<Problem, Made>> table, const Problem& problem) {
  if (const ChoiceLog::Chosen* before = target.choices ? target.choices->next(op) : nullptr) {
    for (const Variant<Problem, Made>& row : table) {
      if (row.name == before->row && row.applies(target, problem)) return {&row, before->candidate};
    }
  }
  Choice<Problem, Made> best;
  bool best_is_wanted = false;
  const auto forced = target.forced.find(op);
  const std::string key = target.chooser ? problem.key() : "";
  for (const Variant<Problem, Made>& row : table) {
    const bool wanted = forced != target.forced.end() && forced->second == row.name;
    if ((best_is_wanted && !wanted) || !row.applies(target, problem)) continue;
    for (Candidate& c : row.candidates(target, problem)) {
      if (target.chooser) c.ns = target.chooser->measured_ns(op, key, row.name, c.text()).value_or(c.ns);
      if (best.row && wanted == best_is_wanted && !(c.ns < best.candidate.ns)) continue;
      best = {&row, std::move(c)};
      best_is_wanted = wanted;
    }
  }
  check(best.row != nullptr, "every op has a kernel that always applies");
  if (target.choices) target.choices->add(op, best.row->name, best.candidate);
  return best;
}

// For OpInfo::variants.
template <class Problem, class Made, size_t N>
std::vector<std::string> names_of(const Variant<Problem, Made> (&table)[N]) {
  std::vector<std::string> names;
  for (const Variant<Problem, Made>& row : table) names.emplace_back(row.name);
  return names;
}

// "<=64" for 33 to 64: sizes of about the same cost share a key.
std::string size_class(int64_t size);

}  // namespace rlx
