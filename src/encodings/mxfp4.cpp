// GGUF's MXFP4: 32 elements in 17 bytes: an exponent, then nibbles of e2m1.h in the order of Q4_0. Element =
// 2 ^ (exponent - 127) * value.
#include <bit>
#include <limits>
#include <string>

#include "encodings/e2m1.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

// Half the power of two, since the values are doubled. The two smallest are subnormal.
float scale_of(int exponent) {
  const auto e = static_cast<uint32_t>(exponent);
  return std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23);
}

void decode(const std::byte* block, float* values) {
  const float scale = scale_of(byte_at(block));
  for (size_t i = 0; i < 32; ++i)
    values[i] = scale * e2m1::doubled((byte_at(block + 1 + i % 16) >> (i / 16 * 4)) & 15);
}

// The best of the exponent that the largest value asks for and its neighbours.
void encode(const float* values, std::byte* block) {
  float largest = 0;
  for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[i]));
  int exponent = 0;
  if (largest > 0 && std::isfinite(largest)) {
    float least = std::numeric_limits<float>::infinity();
    const int middle = std::ilogb(largest) - 2 + 127;
    for (int e = std::max(0, middle - 1); e <= std::clamp(middle + 1, 0, 254); ++e) {
      const float error = e2m1::squared_error(std::span(values, 32), scale_of(e));
      if (error < least) {
        exponent = e;
        least = error;
      }
    }
  }
  put_byte(block, exponent);
  const float scale = scale_of(exponent);
  for (size_t i = 0; i < 16; ++i)
    put_byte(block + 1 + i, e2m1::code_of(values[i], scale) | e2m1::code_of(values[i + 16], scale) << 4);
}

std::string_view wgsl() {
  static const std::string text = std::string(e2m1::kWgsl) + R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the nibbles begin
}
fn x_group_at(i: u32) -> x_Group {
  let e = x_byte(i);
  return x_Group(bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << (e & 1u), e < 2u)), x_block(i));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * x_doubled(x_word(g.at + i % 4u) >> (4u * (i / 4u)));
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_mxfp4(EncodingTable& table) {
  table.add({.dtype = DType::mxfp4,
             .name = "mxfp4",
             .block_elements = 32,
             .block_bytes = 17,
             .group_elements = 32,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
