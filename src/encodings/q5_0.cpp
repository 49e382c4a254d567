// GGUF's Q5_0: 32 elements in 22 bytes, an f16 scale and the codes of five_bits.h. Element = scale * (code -
// 16).
#include <string>

#include "encodings/encoding.h"
#include "encodings/fit.h"
#include "encodings/five_bits.h"

namespace rlx {
namespace {

using five_bits::kElements;

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (size_t i = 0; i < kElements; ++i)
    values[i] = scale * static_cast<float>(five_bits::code_at(block + 2, i) - 16);
}

void encode(const float* values, std::byte* block) {
  const float scale = put_half(block, fit_step(std::span(values, kElements), -16, 15));
  std::fill_n(block + 2, five_bits::kBytes, std::byte{0});
  for (size_t i = 0; i < kElements; ++i)
    five_bits::put_code(block + 2, i, quantum(values[i], scale, -16, 15) + 16);
}

std::string_view wgsl() {
  static const std::string text = std::string(five_bits::kWgsl) + std::string(five_bits::kEighthsWgsl) + R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the codes begin
}
fn x_group_at(i: u32) -> x_Group { return x_Group(x_half(i), x_block(i)); }
fn x_group_four(g: x_Group, i: u32) -> vec4f { return g.scale * (x_codes(g.at, i) - 16.0); }

const x_EIGHTH_FACTORS: u32 = 1u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f { return vec4f(x_half(8u * i + lane)); }
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let at = x_block(8u * i + lane);
  let sixteen = vec4f(16.0, 0x1p12, 0x1p20, 0x1p28);
  let fifths = x_word(at);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let nibbles = x_word(at + 1u + j);
    out[j] = x_bytes(fifths, nibbles, j) - sixteen;
    out[j + 4u] = x_bytes(fifths, nibbles, j + 4u) - sixteen;
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_q5_0(EncodingTable& table) {
  table.add({.dtype = DType::q5_0,
             .name = "q5_0",
             .block_elements = kElements,
             .block_bytes = 2 + five_bits::kBytes,
             .group_elements = kElements,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
