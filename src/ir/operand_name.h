// What errors call an operand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rlx {

// As the table of ops names it, "mask"; "input 3" where the table has no name for it. Defined in
// ops/op_table.cpp, as make_op is.
std::string operand_name(std::string_view op, int64_t input);

}  // namespace rlx
