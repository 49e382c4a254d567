// ONNX ops that are one of our element-wise functions: no rule, only a name in the function's own row
// (ScalarFn::onnx).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/onnx/call.h"

namespace rlx::onnx {

struct OneToOne {
  std::string op;  // of ours
  bool to_bool = false;
  // Attributes of the ONNX op that are operands here, with their defaults.
  std::vector<std::pair<std::string, double>> numbers = {};
};

// Null if there is none.
const OneToOne* find_one_to_one(std::string_view onnx_op);
void import_one_to_one(const OneToOne& same, Call& call);
// The ONNX names of all of them.
std::vector<std::string> one_to_one_names();

}  // namespace rlx::onnx
