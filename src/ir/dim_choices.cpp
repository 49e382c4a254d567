#include "ir/dim_choices.h"

#include <algorithm>

namespace rlx {
namespace {

constexpr std::string_view kOpen = "min(";

// The minimum whose text begins here.
Minimum minimum_at(std::string_view text, size_t begin) {
  size_t comma = 0;
  size_t at = begin + kOpen.size();
  for (int depth = 1; depth > 0; ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 1 && text[at] == ',') comma = at;
  }
  const size_t first = begin + kOpen.size();
  return {std::string(text.substr(begin, at - begin)), Dim::parse(text.substr(first, comma - first)),
          Dim::parse(text.substr(comma + 1, at - comma - 2))};
}

// Whether it is not negative for any values of the symbols up to their capacities.
bool is_size_within(const Dim& dim, const std::map<std::string, int64_t>& capacities) {
  if (dim.is_size()) return true;
  Dim from_top = dim;
  for (const auto& [symbol, largest] : capacities) {
    // What is left to the capacity is a size too.
    const Dim left = Dim(largest) - Dim::symbol(symbol);
    from_top = from_top.replace(symbol, left);
    if (from_top.is_size() || dim.replace(symbol, left).is_size()) return true;
  }
  return false;
}

}  // namespace

std::vector<Minimum> minima(const Dim& dim) {
  if (dim.is_static()) return {};
  std::vector<Minimum> out;
  const std::string text = dim.text();
  // From the back: what is inside of a minimum begins after it. A symbol may end with the same letters, but
  // no symbol is followed by a parenthesis.
  for (size_t at = text.rfind(kOpen); at != std::string::npos; at = at > 0 ? text.rfind(kOpen, at - 1) : at) {
    Minimum found = minimum_at(text, at);
    if (!std::ranges::contains(out, found.text, &Minimum::text)) out.push_back(std::move(found));
    if (at == 0) break;
  }
  return out;
}

Dim choose(const Dim& dim, const DimChoices& choices) {
  Dim out = dim;
  for (const auto& [text, by] : choices) {
    if (!out.is_static()) out = out.replace(text, by);
  }
  return out;
}

std::vector<DimChoices> choices_of(std::vector<Minimum> minima) {
  constexpr size_t kMost = 3;
  if (minima.size() > kMost) minima.resize(kMost);
  std::vector<DimChoices> out = {{}};
  for (const Minimum& m : minima) {
    const size_t before = out.size();
    for (const bool number : {true, false}) {
      for (const Dim* one : {&m.a, &m.b}) {
        if (one->is_static() != number) continue;
        for (size_t i = 0; i < before; ++i) {
          DimChoices more = out[i];
          more.emplace(m.text, *one);
          out.push_back(std::move(more));
        }
      }
    }
  }
  std::ranges::stable_sort(out, {}, &DimChoices::size);
  out.erase(out.begin());
  return out;
}

Dim within_capacities(const Dim& dim, const std::map<std::string, int64_t>& capacities) {
  Dim out = dim;
  for (const Minimum& m : minima(dim)) {
    if (is_size_within(m.b - m.a, capacities)) {
      out = out.replace(m.text, m.a);
    } else if (is_size_within(m.a - m.b, capacities)) {
      out = out.replace(m.text, m.b);
    }
  }
  return out;
}

}  // namespace rlx
