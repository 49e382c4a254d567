// GGUF's Q5_1: 32 elements in 24 bytes, an f16 scale, an f16 minimum and the codes of five_bits.h. Element =
// scale * code + minimum.
#include <string>

#include "encodings/encoding.h"
#include "encodings/fit.h"
#include "encodings/five_bits.h"

namespace rlx {
namespace {

using five_bits::kElements;

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (size_t i = 0; i < kElements; ++i)
    values[i] = scale * static_cast<float>(five_bits::code_at(block + 4, i)) + minimum;
}

void encode(const float* values, std::byte* block) {
  const Fit fit = fit_range(std::span(values, kElements), 31, false);
  const float scale = put_half(block, fit.step);
  const float minimum = put_half(block + 2, fit.low);
  std::fill_n(block + 4, five_bits::kBytes, std::byte{0});
  for (size_t i = 0; i < kElements; ++i)
    five_bits::put_code(block + 4, i, quantum(values[i] - minimum, scale, 0, 31));
}

std::string_view wgsl() {
  static const std::string text = std::string(five_bits::kWgsl) + std::string(five_bits::kEighthsWgsl) + R"(
struct x_Group {
  scale: f32,
  minimum: f32,
  at: u32,  // the word where the codes begin
}
fn x_group_at(i: u32) -> x_Group {
  let d = unpack2x16float(x_word(x_block(i)));
  return x_Group(d.x, d.y, x_block(i) + 1u);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f { return g.scale * x_codes(g.at, i) + g.minimum; }

const x_EIGHTH_FACTORS: u32 = 0u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f { return vec4f(1.0); }
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(8u * i + lane);
  let d = unpack2x16float(x_word(block));
  let minimum = d.y * vec4f(1.0, 0x1p8, 0x1p16, 0x1p24);
  let at = block + 1u;
  let fifths = x_word(at);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let nibbles = x_word(at + 1u + j);
    out[j] = d.x * x_bytes(fifths, nibbles, j) + minimum;
    out[j + 4u] = d.x * x_bytes(fifths, nibbles, j + 4u) + minimum;
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_q5_1(EncodingTable& table) {
  table.add({.dtype = DType::q5_1,
             .name = "q5_1",
             .block_elements = kElements,
             .block_bytes = 4 + five_bits::kBytes,
             .group_elements = kElements,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
