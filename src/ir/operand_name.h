// What the table of ops says about an operand. Defined in ops/schema.cpp: ir/ cannot see the ops.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rlx {

// As the table names it, "mask"; "input 3" where it has no name for it.
std::string operand_name(std::string_view op, int64_t input);
// Whether it may be left out.
bool is_optional_operand(std::string_view op, int64_t input);

}  // namespace rlx
