// What printing and parsing of the text form share.
#pragma once

#include <cctype>
#include <string_view>

namespace rlx {

// Characters of names that need no quotes.
inline bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

}  // namespace rlx
