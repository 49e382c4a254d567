#include "tests/support/encoded.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>

#include "base/format.h"
#include "encodings/encoding.h"
#include "tests/support/full.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

constexpr std::array kOneOfEachKind = {DType::q5_k, DType::q4_0, DType::mxfp4, DType::q6_k};

int64_t elements_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

bool is_quick(DType encoding) {
  if (full_run()) return true;
  return short_run() ? std::ranges::contains(kOneOfEachKind, encoding)
                     : !to_string(encoding).starts_with("iq");
}

const SafetensorsFile& encoded_fixture() {
  static const SafetensorsFile file =
      SafetensorsFile::open(in_source("tests/fixtures/encodings.safetensors"));
  return file;
}

Tensor ggml_tensor(DType type, std::vector<int64_t> shape) {
  const std::span<const std::byte> blocks = encoded_fixture().bytes(formatted("{}.blocks", to_string(type)));
  std::vector<std::byte> bytes(host_bytes_of(type, elements_of(shape)));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = blocks[i % blocks.size()];
  return Tensor(type, std::move(shape), std::move(bytes));
}

Tensor ggml_values(DType type, std::vector<int64_t> shape) {
  const std::vector<double> values =
      encoded_fixture().tensor(formatted("{}.values", to_string(type))).doubles();
  std::vector<double> out(static_cast<size_t>(elements_of(shape)));
  for (size_t i = 0; i < out.size(); ++i) out[i] = values[i % values.size()];
  return Tensor::from_doubles(DType::f32, std::move(shape), out);
}

}  // namespace rlx::testing
