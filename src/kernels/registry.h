// All kernels that have a .wgsl file (generated ones of element-wise regions are not among them).
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace rlx::kernels {

const std::vector<std::shared_ptr<const Kernel>>& all();

}  // namespace rlx::kernels
