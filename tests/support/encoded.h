// Tensors that libggml has quantised (tests/fixtures/make_encodings.py).
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/safetensors.h"
#include "rlx/tensor.h"

namespace rlx::testing {

// Formats that read code books take a driver many seconds to compile: all of their kernels only in a full
// run.
bool is_quick(DType encoding);

const SafetensorsFile& encoded_fixture();

// A tensor of this shape whose blocks are those of the fixture, again and again.
Tensor ggml_tensor(DType type, std::vector<int64_t> shape);

// The same tensor as libggml decodes it, in f32.
Tensor ggml_values(DType type, std::vector<int64_t> shape);

}  // namespace rlx::testing
