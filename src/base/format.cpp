#include "base/format.h"

namespace rlx {

std::string vformatted(std::string_view form, std::format_args args) { return std::vformat(form, args); }

std::string excerpt(std::string_view text, size_t most) {
  return text.size() <= most ? std::string(text) : std::string(text.substr(0, most)) + "...";
}

}  // namespace rlx
