#include "base/flags.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/fail.h"

namespace rlx {

std::string env_text(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

bool env_flag(const char* name) {
  std::string text = env_text(name);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_zero = !text.empty() && std::ranges::all_of(text, [](char c) { return c == '0'; });
  return !text.empty() && !is_zero && text != "false" && text != "off" && text != "no";
}

int64_t env_number(const char* name, int64_t otherwise) {
  const std::string text = env_text(name);
  if (text.empty()) return otherwise;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::invalid_argument, "the environment variable {} is '{}', which is not a whole number",
         name, text);
  }
  return number;
}

std::string cache_folder() {
  if (const std::string dir = env_text("RLX_CACHE_DIR"); !dir.empty()) return dir;
  if (const std::string dir = env_text("XDG_CACHE_HOME"); !dir.empty()) return dir + "/rlx";
  if (const std::string dir = env_text("HOME"); !dir.empty()) return dir + "/.cache/rlx";
  return "";
}

}  // namespace rlx
