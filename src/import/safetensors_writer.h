// Writing a safetensors file that is not committed yet, for those who write another one with it.
#pragma once

#include <map>
#include <string>

#include "import/new_file.h"
#include "rlx/tensor.h"

namespace rlx {

// Tensor by tensor: nothing is held twice.
void write_safetensors(NewFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string, std::less<>>& metadata = {});

}  // namespace rlx
