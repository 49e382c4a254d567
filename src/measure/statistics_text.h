// Numbers in what drivers print.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rlx::measure {

// The number that follows the text, spaces between: number_after(t, "VGPRs:").
inline std::optional<int64_t> number_after(std::string_view text, std::string_view before) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + before.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

// The number that the text follows: number_before(t, " instr,").
inline std::optional<int64_t> number_before(std::string_view text, std::string_view after) {
  const size_t end = text.find(after);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view head = text.substr(0, end);
  return number_after(head.substr(head.find_last_not_of("0123456789") + 1), "");
}

// The part of the text from the last place where this is; empty if it is nowhere.
inline std::string_view from_last(std::string_view text, std::string_view mark) {
  const size_t at = text.rfind(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

}  // namespace rlx::measure
