#include "kernels/choices.h"

#include <algorithm>
#include <cstdint>

#include "base/fail.h"

namespace rlx {
namespace {

constexpr std::string_view kTitle = "rlx choices 1\n";

}  // namespace

void KernelChoices::add(std::string_view family, std::string_view key, std::string_view candidate) {
  const auto found = chosen_.find(std::pair(family, key));
  if (found != chosen_.end()) {
    found->second = candidate;
  } else {
    chosen_.emplace(Problem(family, key), candidate);
  }
}

std::string_view KernelChoices::find(std::string_view family, std::string_view key) const {
  const auto found = chosen_.find(std::pair(family, key));
  return found == chosen_.end() ? std::string_view() : std::string_view(found->second);
}

std::string KernelChoices::text() const {
  std::string out(kTitle);
  for (const auto& [problem, candidate] : chosen_)
    out += formatted("{}\t{}\t{}\n", problem.first, problem.second, candidate);
  return out;
}

KernelChoices KernelChoices::parse(std::string_view text) {
  if (!text.starts_with(kTitle))
    fail(ErrorKind::invalid_argument, "these are no choices of kernels: their first line is not '{}'",
         kTitle.substr(0, kTitle.size() - 1));
  KernelChoices out;
  text.remove_prefix(kTitle.size());
  for (int64_t number = 2; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t first = line.find('\t');
    const size_t second = first == line.npos ? first : line.find('\t', first + 1);
    if (second == line.npos || line.find('\t', second + 1) != line.npos)
      fail(ErrorKind::invalid_argument,
           "line {} of these choices of kernels is not a family, a key and a name between tabs", number);
    out.add(line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1));
  }
  return out;
}

}  // namespace rlx
