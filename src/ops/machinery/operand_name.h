// What the table of ops says about an operand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rlx {

// As the table names it, "mask"; "input 3" where it has no name for it.
std::string operand_name(std::string_view op, int64_t input);
// Its number; nothing if the op has none of that name.
std::optional<int64_t> find_operand(std::string_view op, std::string_view name);
// Whether it may be left out.
bool is_optional_operand(std::string_view op, int64_t input);

// "x, w, bias": those that find_operand knows.
std::string named_operands(std::string_view op);

}  // namespace rlx
