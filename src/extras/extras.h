// The ops of rlx/extras.h, each in a file.
#pragma once

#include "rlx/custom_op.h"
#include "rlx/extras.h"

namespace rlx::extras {

CustomOp umap_knn_op();
CustomOp group_limited_gate_op();

[[noreturn]] void refuse(const std::string& sentence);

}  // namespace rlx::extras
