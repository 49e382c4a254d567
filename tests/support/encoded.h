// Tensors that libggml has quantised (tests/fixtures/make_encodings.py).
#pragma once

#include <cstring>

#include "encodings/encoding.h"
#include "rlx/safetensors.h"
#include "rlx/tensor.h"
#include "tests/support/full.h"
#include "tests/support/paths.h"

namespace rlx::testing {

// Formats that read code books take a driver many seconds to compile: all of their kernels only in a full
// run.
inline bool is_quick(DType encoding) { return full_run() || !to_string(encoding).starts_with("iq"); }

inline const SafetensorsFile& encoded_fixture() {
  static const SafetensorsFile file =
      SafetensorsFile::open(in_source("tests/fixtures/encodings.safetensors"));
  return file;
}

// A tensor of this shape whose blocks are those of the fixture, again and again.
inline Tensor ggml_tensor(DType type, std::vector<int64_t> shape) {
  int64_t elements = 1;
  for (const int64_t d : shape) elements *= d;
  const std::span<const std::byte> blocks = encoded_fixture().bytes(formatted("{}.blocks", to_string(type)));
  std::vector<std::byte> bytes(host_bytes_of(type, elements));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = blocks[i % blocks.size()];
  return Tensor(type, std::move(shape), std::move(bytes));
}

// The same tensor as libggml decodes it, in f32.
inline Tensor ggml_values(DType type, std::vector<int64_t> shape) {
  const Tensor values = encoded_fixture().tensor(formatted("{}.values", to_string(type)));
  std::vector<double> out;
  int64_t elements = 1;
  for (const int64_t d : shape) elements *= d;
  for (int64_t i = 0; i < elements; ++i) out.push_back(values.real(i % values.elements()));
  return Tensor::from_doubles(DType::f32, std::move(shape), out);
}

}  // namespace rlx::testing
