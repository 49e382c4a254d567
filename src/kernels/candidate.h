// One kernel out of those that an op can use: a row of its table, a form of the problem, and constants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/inline_vector.h"

namespace rlx {

// Why a candidate was taken: by estimated or measured time, because its op's kernel was forced, or because it
// was taken before.
enum class ChoiceReason : uint8_t { estimated, measured, forced, replayed };
std::string_view to_string(ChoiceReason reason);

struct Candidate {
  struct Constant {
    std::string_view name;
    uint32_t value;
  };
  double ns = 0;
  InlineVector<Constant, 8> constants = {};  // values of the kernel's spec constants that are worth varying
  // The rest is filled in by choose(). Both are literals: names of rows and of forms, words with one space
  // between them.
  std::string_view row = {};
  std::string_view form = {};
  bool measured = false;                          // ns is no estimate
  ChoiceReason reason = ChoiceReason::estimated;  // of the one that was taken
  // What its own dispatches are predicted to take, where that is not `ns`: to choose, ranks are enough, and a
  // form may need other dispatches, which are chosen by themselves. 0: `ns`.
  double own_ns = 0;

  double predicted_ns() const { return own_ns > 0 ? own_ns : ns; }

  uint32_t at(std::string_view name) const;
  bool has(std::string_view name) const;  // a constant
  // "transposed rows ROWS=16 LANES=8": what plans and profiles show, and by which it is forced.
  std::string text() const;
};

// Whether `name`, the text of a candidate, has all words of `wanted`, which may leave some out ("rows",
// "split_k", "rows ROWS=16").
bool has_words(std::string_view name, std::string_view wanted);

}  // namespace rlx
