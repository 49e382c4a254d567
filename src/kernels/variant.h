// Tables of kernels: an op with several lists them as rows, and the cheapest that applies is used.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.h"
#include "base/inline_vector.h"
#include "kernels/candidate.h"
#include "kernels/target.h"

namespace rlx {

class Lowering;

// Most rows have a single candidate.
std::vector<Candidate> one_candidate(double ns);

// What was chosen while a node was lowered, so that the same is chosen when it is lowered again for a length
// that has grown.
class ChoiceLog {
 public:
  void replay() {
    replays_ = true;
    next_ = 0;
  }
  // While replaying: the next choice, null if it was for another op or there is none.
  const Candidate* next(std::string_view op) {
    if (!replays_ || next_ == made_.size() || made_[next_].op != op) return nullptr;
    return &made_[next_++].candidate;
  }
  void add(std::string_view op, const Candidate& candidate) {
    if (!replays_) made_.push_back({std::string(op), candidate});
  }

 private:
  struct Chosen {
    std::string op;
    Candidate candidate;
  };
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

// Another way to see a problem, in which every row of the table can be used for it.
template <class Problem>
struct Form {
  Problem problem;
  std::string_view name;  // Candidate::form
  double share = 1;       // how long a kernel takes, measured by what its row estimates
  double extra_ns = 0;    // of other dispatches
  InlineVector<Candidate::Constant, 1> constants = {};
  std::string_view row = {};  // the only one that it is for; empty: all
};

// A row and the constants to make its kernel with.
template <class Problem, class Made>
struct Choice {
  const Variant<Problem, Made>* row = nullptr;
  Candidate candidate = {};

  // Calls the row's `make`. Its dispatches are labelled with the candidate.
  Made make(Lowering& l, const Problem& problem) const;
};

// What decides besides the candidates. A part of a problem may lack the constants that are forced for the
// whole.
struct Question {
  std::string_view family, op;
  std::string key;  // only if there is a chooser
  bool part = false;
};
// Which of the candidates is taken: those that are forced before all others, then the fastest. Measured times
// replace estimates.
size_t decide(const Target& target, const Question& question, std::span<Candidate> all);

// `key` and what else of the target decides about times.
std::string key_for(const Target& target, std::string_view key);

// The ops whose records serve each other.
template <class Problem>
std::string_view family_of(std::string_view op) {
  if constexpr (requires { Problem::kFamily; }) {
    return Problem::kFamily;
  } else {
    return op;
  }
}

template <class Problem>
std::vector<Form<Problem>> no_other_forms() {
  return {};
}

// What was chosen before, if the target has a log that says so, and it still applies; what is forced, if it
// applies; else the candidate with the least cost, of all rows and forms. `other_forms` is called only if
// candidates are compared.
template <class Problem, class Made, class Forms = std::vector<Form<Problem>> (*)()>
Choice<Problem, Made> choose(const Target& target, std::string_view op,
                             std::span<const Variant<Problem, Made>> table, const Problem& problem,
                             Forms&& other_forms = no_other_forms<Problem>, bool part = false) {
  const auto row_of = [&](const Candidate& c) {
    return std::ranges::find(table, c.row, &Variant<Problem, Made>::name);
  };
  if (const Candidate* before = target.choices ? target.choices->next(op) : nullptr) {
    if (const auto row = row_of(*before); row != table.end() && row->applies(target, problem)) {
      if (target.chooser) {
        target.chooser->chosen({.family = family_of<Problem>(op),
                                .op = op,
                                .key = {},
                                .all = std::span(before, 1),
                                .reason = Decision::Reason::replayed});
      }
      return {&*row, *before};
    }
  }
  std::vector<Candidate> all;
  const auto add = [&](const Problem& p, const Form<Problem>* form) {
    for (const Variant<Problem, Made>& row : table) {
      if (form && !form->row.empty() && form->row != row.name) continue;
      if (!row.applies(target, p)) continue;
      for (Candidate& c : row.candidates(target, p)) {
        c.row = row.name;
        if (form) {
          c.form = form->name;
          c.own_ns = c.predicted_ns();
          c.ns = c.ns * form->share + form->extra_ns;
          for (const Candidate::Constant& constant : form->constants) c.constants.push_back(constant);
        }
        all.push_back(std::move(c));
      }
    }
  };
  add(problem, nullptr);
  for (const Form<Problem>& form : other_forms()) add(form.problem, &form);
  const size_t taken = decide(target,
                              {.family = family_of<Problem>(op),
                               .op = op,
                               .key = target.chooser ? key_for(target, problem.key()) : "",
                               .part = part},
                              all);
  if (target.choices) target.choices->add(op, all[taken]);
  return {&*row_of(all[taken]), std::move(all[taken])};
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
