// What rules of recurrent networks share.
#pragma once

#include <string>
#include <vector>

#include "import/onnx/call.h"
#include "rlx/ops/recurrent.h"

namespace rlx::onnx {

// The attribute `activations` with its alphas and betas: names of functions, or expressions of $0.
std::vector<std::string> recurrent_activations(const Call& c);
// The attribute `direction`.
RecurrentDirection recurrent_direction(const Call& c);
// Input 4, the number of steps of each row; empty if all rows have all steps.
Value recurrent_lengths(Call& c, const Dim& steps);

}  // namespace rlx::onnx
