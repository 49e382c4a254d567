// Names in WGSL texts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlx {

// The text with other names in place of these, where they are whole identifiers.
std::string renamed(std::string_view text,
                    const std::vector<std::pair<std::string_view, std::string_view>>& names);

// A text about the operand x, for one of this name: in place of x in `//@ in x`, and in names that begin with
// x_.
std::string for_operand(std::string_view text, std::string_view name);

}  // namespace rlx
