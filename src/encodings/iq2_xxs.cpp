// GGUF's IQ2_XXS: 256 elements in 66 bytes: f16 d, then two words for each of eight groups of 32: four
// entries of the code book in a byte each; four times seven signs and, in the top four bits, a scale. Element
// = d * (scale + 1/2) / 4 * level, with its sign.
#include "encodings/code_books.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const std::byte* group = block + 2 + i / 32 * 8;
    const unsigned word = code_books::word_at(group + 4);
    const size_t part = i % 32 / 8;
    const unsigned entry =
        code_books::entry(code_books::kIq2Xxs, static_cast<unsigned>(byte_at(group + part)));
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.25F;
    const float level = code_books::kIq2Levels[code_books::level_of_eight(entry, i % 8)];
    values[i] =
        code_books::with_sign(scale * level, code_books::eight_signs((word >> (7 * part)) & 127), i % 8);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq2Xxs) + R"(
struct x_Group {
  scale: f32,
  entries: u32,
  signs: u32,
}
fn x_group_at(i: u32) -> x_Group {
  let at = x_block(i / 8u) + 2u * (i % 8u);
  let signs = x_word(at + 1u);
  return x_Group(x_half(i / 8u) * (0.5 + f32(i32(signs >> 28u))) * 0.25, x_word(at), signs);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let entry = x_entry((g.entries >> (8u * (i / 2u))) & 255u);
  let signs = x_eight_signs((g.signs >> (7u * (i / 2u))) & 127u);
  return g.scale * x_signed(x_iq2(x_two_bits(entry, i)), signs >> (4u * (i % 2u)));
}

const x_EIGHTH_FACTORS: u32 = 1u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let scale = x_eight(x_block(i) + 1u, 8u, 4u, 2u, lane) >> 28u;
  return vec4f(0.25 * x_half(i) * (0.5 + f32(i32(scale))));
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let entries = x_eight(block, 8u, 4u, 2u, lane);
  let sevens = x_eight(block + 1u, 8u, 4u, 2u, lane);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let levels = x_levels((entries >> (8u * j)) & 255u);
    let signs = x_eight_signs((sevens >> (7u * j)) & 127u);
    out[j] = x_signed(x_iq2(levels[0]), signs);
    out[j + 4u] = x_signed(x_iq2(levels[1]), signs >> 4u);
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq2_xxs(EncodingTable& table) {
  table.add({.dtype = DType::iq2_xxs,
             .name = "iq2_xxs",
             .block_elements = 256,
             .block_bytes = 66,
             .group_elements = 32,
             .decode = decode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
