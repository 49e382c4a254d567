// Names that someone may have meant.
#pragma once

#include <string_view>

namespace rlx {

// Whether `name` differs from what was wanted by a slip, or one is a part of the other.
bool is_near(std::string_view wanted, std::string_view name);

}  // namespace rlx
