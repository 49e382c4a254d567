// std::format whose machinery is compiled once: otherwise it would cost every source file four seconds.
#pragma once

#include <format>
#include <functional>
#include <ranges>
#include <string>
#include <string_view>

namespace rlx {

std::string vformatted(std::string_view form, std::format_args args);

template <class... Args>
std::string formatted(std::format_string<Args...> form, Args&&... args) {
  return vformatted(form.get(), std::make_format_args(args...));
}

// Quoted input in a message: only the beginning if it is long.
std::string excerpt(std::string_view text, size_t most = 60);

// The items as a list: "a, b, c". `text` returns the text or the number of one.
template <std::ranges::input_range R, class F = std::identity>
std::string joined(const R& items, F&& text = {}, std::string_view separator = ", ") {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(std::invoke(text, item))>>) {
      out += std::to_string(std::invoke(text, item));  // += would append a character
    } else {
      out += std::invoke(text, item);
    }
  }
  return out;
}

}  // namespace rlx
