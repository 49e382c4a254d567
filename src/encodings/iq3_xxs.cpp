// GGUF's IQ3_XXS: 256 elements in 98 bytes: f16 d, 64 entries of the code book in a byte each, then a word
// for each of eight groups of 32: four times seven signs and, in the top four bits, a scale. Element = d *
// (scale + 1/2) / 2 * level, with its sign.
#include "encodings/code_books.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

// 4, 12, 20 and so on, but 62 in place of 60.
float level_value(unsigned level) { return static_cast<float>(8 * level + (level == 7 ? 6 : 4)); }

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned word = code_books::word_at(block + 66 + i / 32 * 4);
    const unsigned entry =
        code_books::entry(code_books::kIq3Xxs, static_cast<unsigned>(byte_at(block + 2 + i / 4)));
    const unsigned signs = code_books::eight_signs((word >> (i % 32 / 8 * 7)) & 127);
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.5F;
    values[i] =
        code_books::with_sign(scale * level_value(code_books::level_of_four(entry, i % 4)), signs, i % 8);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq3Xxs) + R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the entries begin
  signs: u32,
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  let signs = x_word(block + 16u + i % 8u);
  return x_Group(x_half(i / 8u) * (0.5 + f32(i32(signs >> 28u))) * 0.5, block + 2u * (i % 8u), signs);
}
fn x_iq3(levels: vec4f) -> vec4f { return select(8.0 * levels + 4.0, vec4f(62.0), levels == vec4f(7.0)); }
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let levels = x_four_bits(x_entry((x_word(g.at + i / 4u) >> (8u * (i % 4u))) & 255u));
  let signs = x_eight_signs((g.signs >> (7u * (i / 2u))) & 127u);
  return g.scale * x_signed(x_iq3(levels), signs >> (4u * (i % 2u)));
}

const x_EIGHTH_FACTORS: u32 = 1u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let scale = x_eight(x_block(i) + 16u, 4u, 2u, 1u, lane) >> 28u;
  return vec4f(0.5 * x_half(i) * (0.5 + f32(i32(scale))));
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let codes = array<u32, 2>(x_eight(block, 8u, 4u, 2u, lane), x_eight(block + 1u, 8u, 4u, 2u, lane));
  let sevens = x_eight(block + 16u, 4u, 2u, 1u, lane);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let pair = codes[j / 2u] >> (16u * (j % 2u));
    let signs = x_eight_signs((sevens >> (7u * j)) & 127u);
    out[j] = x_signed(x_iq3(x_four_bits(x_entry(pair & 255u))), signs);
    out[j + 4u] = x_signed(x_iq3(x_four_bits(x_entry((pair >> 8u) & 255u))), signs >> 4u);
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq3_xxs(EncodingTable& table) {
  table.add({.dtype = DType::iq3_xxs,
             .name = "iq3_xxs",
             .block_elements = 256,
             .block_bytes = 98,
             .group_elements = 32,
             .decode = decode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
