// Modules of kernels whose operands are given by their types alone.
#pragma once

#include <span>
#include <string>

#include "kernels/kernel.h"
#include "rlx/dtype.h"

namespace rlx {

// As the other default_module_text (kernels/binder.h), with a type for each operand.
std::string default_module_text(const KernelPtr& kernel, std::span<const DType> types);

}  // namespace rlx
