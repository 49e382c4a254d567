#include "base/format.h"

namespace rlx {

std::string vformatted(std::string_view form, std::format_args args) { return std::vformat(form, args); }

}  // namespace rlx
