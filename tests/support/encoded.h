// Tensors that libggml has quantised (tests/fixtures/make_encodings.py).
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/safetensors.h"
#include "rlx/tensor.h"

namespace rlx::testing {

// Whether tests of many kernels take this format. Not those that read code books, which take a driver many
// seconds to compile; in a short run one of each kind: blocks of whole words, of an even and of an odd number
// of bytes, and with scales apart from them. All in a full run.
bool is_quick(DType encoding);

const SafetensorsFile& encoded_fixture();

// A tensor of this shape whose blocks are those of the fixture, again and again.
Tensor ggml_tensor(DType type, std::vector<int64_t> shape);

// The same tensor as libggml decodes it, in f32.
Tensor ggml_values(DType type, std::vector<int64_t> shape);

}  // namespace rlx::testing
