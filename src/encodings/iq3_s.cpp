// GGUF's IQ3_S: 256 elements in 110 bytes: f16 d, the low bytes of 64 entries of the code book, 8 bytes with
// the ninth bits of eight entries each, 32 bytes of signs, then eight scales in a nibble each, for groups
// of 32. Element = d * (1 + 2 * scale) * level, with its sign; the levels are 1, 3, 5 and so on.
#include "encodings/code_books.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const int ninth = (byte_at(block + 66 + i / 32) >> (i / 4 % 8)) & 1;
    const int code = byte_at(block + 2 + i / 4) | ninth << 8;
    const unsigned entry = code_books::entry(code_books::kIq3S, static_cast<unsigned>(code));
    const auto signs = static_cast<unsigned>(byte_at(block + 74 + i / 8));
    const int nibble = (byte_at(block + 106 + i / 64) >> (i / 32 % 2 * 4)) & 15;
    const float scale = d * static_cast<float>(1 + 2 * nibble);
    const auto level = static_cast<float>(2 * code_books::level_of_four(entry, i % 4) + 1);
    values[i] = code_books::with_sign(scale * level, signs, i % 8);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq3S) + R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the low bytes of the entries begin
  ninth: u32,  // their ninth bits
  signs: u32,
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  let g = i % 8u;
  let scale = (x_word(block + 26u) >> (4u * g)) & 15u;
  return x_Group(x_half(i / 8u) * f32(i32(1u + 2u * scale)), block + 2u * g,
                 x_word(block + 16u + g / 4u) >> (8u * (g % 4u)), x_word(block + 18u + g));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let low = (x_word(g.at + i / 4u) >> (8u * (i % 4u))) & 255u;
  let levels = x_four_bits(x_entry(low | (((g.ninth >> i) & 1u) << 8u)));
  return g.scale * x_signed(2.0 * levels + 1.0, g.signs >> (4u * i));
}

const x_EIGHTH_FACTORS: u32 = 1u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let scale = (x_word(x_block(i) + 26u) >> (4u * lane)) & 15u;
  return vec4f(x_half(i) * f32(i32(1u + 2u * scale)));
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let low = array<u32, 2>(x_eight(block, 8u, 4u, 2u, lane), x_eight(block + 1u, 8u, 4u, 2u, lane));
  let ninth = x_eight(block + 16u, 1u, 0u, 0u, lane) >> (8u * (lane % 4u));
  let signs = x_eight(block + 18u, 4u, 2u, 1u, lane);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 8u; j++) {
    let entry = 2u * (j % 4u) + j / 4u;
    let code = ((low[entry / 4u] >> (8u * (entry % 4u))) & 255u) | (((ninth >> entry) & 1u) << 8u);
    out[j] = x_signed(2.0 * x_four_bits(x_entry(code)) + 1.0, signs >> (4u * entry));
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq3_s(EncodingTable& table) {
  table.add({.dtype = DType::iq3_s,
             .name = "iq3_s",
             .block_elements = 256,
             .block_bytes = 110,
             .group_elements = 32,
             .decode = decode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
