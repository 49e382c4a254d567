#include "kernels/variant.h"

#include <bit>
#include <cmath>
#include <ranges>
#include <tuple>

#include "base/format.h"

namespace rlx {
namespace {

auto words_of(std::string_view text) {
  return text | std::views::split(' ') |
         std::views::transform([](const auto& word) { return std::string_view(word); }) |
         std::views::filter([](std::string_view word) { return !word.empty(); });
}

bool is_constant(std::string_view word) { return word.contains('='); }

std::string without_constants(std::string_view wanted) {
  std::string out;
  for (const std::string_view word : words_of(wanted)) {
    if (!is_constant(word)) out += formatted("{}{}", out.empty() ? "" : " ", word);
  }
  return out;
}

// How far a candidate is from what is forced: forms that were not asked for count, so that "rows" means the
// problem as it is where that has rows. The last rank is for those that lack a word.
constexpr int64_t kOther = 1000;
int64_t rank_of(const Candidate& c, std::string_view wanted) {
  if (!has_words(c.text(), wanted)) return kOther;
  return std::ranges::count_if(words_of(c.form),
                               [&](std::string_view word) { return !has_words(wanted, word); });
}

// A constant that no candidate of the wanted row has would otherwise be ignored silently. A row that cannot
// handle the case is passed over.
void check_constants(std::string_view op, std::string_view wanted, std::span<const Candidate> all) {
  const std::string words = without_constants(wanted);
  std::string names;
  for (const Candidate& c : all) {
    if (rank_of(c, words) == 0) names += formatted("{}'{}'", names.empty() ? "" : ", ", c.text());
  }
  if (words == wanted || names.empty()) return;
  fail(ErrorKind::invalid_argument, "the op '{}' has no kernel '{}' for these sizes; with '{}' it has: {}",
       op, wanted, words, names);
}

}  // namespace

uint32_t Candidate::at(std::string_view name) const {
  for (const Constant& c : constants) {
    if (c.name == name) return c.value;
  }
  fail(ErrorKind::internal, "the candidate '{}' has no constant {}", text(), name);
}

bool Candidate::has(std::string_view name) const {
  return std::ranges::contains(constants, name, &Constant::name);
}

std::string_view to_string(ChoiceReason reason) {
  switch (reason) {
    case ChoiceReason::estimated:
      return "estimate";
    case ChoiceReason::measured:
      return "measurement";
    case ChoiceReason::forced:
      return "force";
    case ChoiceReason::replayed:
      return "replay";
  }
  return "";
}

std::string Candidate::text() const {
  std::string out(form);
  if (!out.empty() && !row.empty()) out += ' ';
  out += row;
  for (const Constant& c : constants) out += formatted("{}{}={}", out.empty() ? "" : " ", c.name, c.value);
  return out;
}

bool has_words(std::string_view name, std::string_view wanted) {
  return std::ranges::all_of(
      words_of(wanted), [&](std::string_view word) { return std::ranges::contains(words_of(name), word); });
}

std::vector<Candidate> one_candidate(double ns) { return {Candidate{.ns = ns}}; }

std::string key_for(const Target& target, std::string_view key) {
  return formatted("{} {}{}", key, to_string(target.precision), target.sizes_vary ? " varying" : "");
}

size_t decide(const Target& target, const Question& question, std::span<Candidate> all) {
  check(!all.empty(), "every op has a kernel that always applies");
  const Chooser* const chooser = target.chooser.get();
  const auto forced = target.forced.find(question.op);
  const bool is_forced = forced != target.forced.end();
  const bool knows = chooser && chooser->knows(question.family, question.key);
  const std::string_view settled =
      knows ? chooser->settled(question.family, question.key) : std::string_view();
  std::tuple<int64_t, bool, double> least;
  size_t taken = all.size();
  for (size_t i = 0; i < all.size(); ++i) {
    Candidate& c = all[i];
    bool other = !settled.empty();
    if (knows) {
      const std::string name = c.text();
      const auto ns = chooser->measured_ns(question.family, question.key, name);
      c.measured = ns && std::isfinite(*ns);
      c.ns = ns.value_or(c.ns);
      other &= name != settled;
      if (ns) c.own_ns = 0;
    }
    const std::tuple cost(is_forced ? rank_of(c, forced->second) : kOther, other, c.ns);
    if (taken < all.size() && !(cost < least)) continue;
    least = cost;
    taken = i;
  }
  const bool follows = std::get<0>(least) < kOther;
  if (is_forced && !follows && !question.part) check_constants(question.op, forced->second, all);
  using Reason = Decision::Reason;
  const bool was_settled = !settled.empty() && !std::get<1>(least);
  all[taken].reason = follows               ? Reason::forced
                      : all[taken].measured ? Reason::measured
                      : was_settled         ? Reason::replayed
                                            : Reason::estimated;
  if (chooser) {
    chooser->chosen({.family = question.family,
                     .op = question.op,
                     .key = question.key,
                     .all = all,
                     .taken = taken,
                     .reason = all[taken].reason});
  }
  return taken;
}

std::string size_class(int64_t size) {
  return size <= 0 ? "=0" : formatted("<={}", std::bit_ceil(static_cast<uint64_t>(size)));
}

}  // namespace rlx
