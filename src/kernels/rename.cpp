#include "kernels/rename.h"

#include <algorithm>
#include <cctype>

namespace rlx {
namespace {

bool part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The text with f(word, text so far) in place of each word.
template <class F>
std::string with_words(std::string_view text, F&& f) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (!part_of_name(text[at])) {
      out += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && part_of_name(text[end])) ++end;
    out += f(text.substr(at, end - at), std::string_view(out));
    at = end;
  }
  return out;
}

}  // namespace

std::string renamed(std::string_view text,
                    const std::vector<std::pair<std::string_view, std::string_view>>& names) {
  return with_words(text, [&](std::string_view word, std::string_view) {
    const auto found = std::ranges::find(names, word, &std::pair<std::string_view, std::string_view>::first);
    return found == names.end() ? word : found->second;
  });
}

std::string for_operand(std::string_view text, std::string_view name) {
  return with_words(text, [&](std::string_view word, std::string_view before) {
    if (word.starts_with("x_")) return std::string(name) + std::string(word.substr(1));
    return std::string(word == "x" && before.ends_with("//@ in ") ? name : word);
  });
}

}  // namespace rlx
