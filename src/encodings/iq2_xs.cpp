// GGUF's IQ2_XS: 256 elements in 74 bytes: f16 d, 32 times 16 bits with an entry of the code book (nine bits)
// and seven signs, then 16 scales in a nibble each, for groups of 16. Element = d * (scale + 1/2) / 4 *
// level, with its sign.
#include "encodings/code_books.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned code = code_books::u16_at(block + 2 + i / 8 * 2);
    const unsigned entry = code_books::entry(code_books::kIq2Xs, code & 511);
    const int nibble = (byte_at(block + 66 + i / 32) >> (i / 16 % 2 * 4)) & 15;
    const float scale = d * (0.5F + static_cast<float>(nibble)) * 0.25F;
    const float level = code_books::kIq2Levels[code_books::level_of_eight(entry, i % 8)];
    values[i] = code_books::with_sign(scale * level, code_books::eight_signs(code >> 9), i % 8);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq2Xs) + R"(
struct x_Group {
  scale: f32,
  codes: u32,
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let g = i % 16u;
  let scale = (x_word(block + 16u + g / 8u) >> (4u * (g % 8u))) & 15u;
  return x_Group(x_half(i / 16u) * (0.5 + f32(i32(scale))) * 0.25, x_word(block + g));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let code = (g.codes >> (16u * (i / 2u))) & 0xffffu;
  let signs = x_eight_signs(code >> 9u);
  return g.scale * x_signed(x_iq2(x_two_bits(x_entry(code & 511u), i)), signs >> (4u * (i % 2u)));
}

// Two entries of a lane share a scale.
const x_EIGHTH_FACTORS: u32 = 4u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let scales = x_eight(x_block(i) + 16u, 1u, 0u, 0u, lane) >> (8u * (lane % 4u));
  let d = 0.25 * x_half(i);
  return (d * (0.5 + vec2f(vec2i(vec2u(scales, scales >> 4u) & vec2u(15u))))).xxyy;
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let codes = array<u32, 2>(x_eight(block, 8u, 4u, 2u, lane), x_eight(block + 1u, 8u, 4u, 2u, lane));
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let code = (codes[j / 2u] >> (16u * (j % 2u))) & 0xffffu;
    let levels = x_levels(code & 511u);
    let signs = x_eight_signs(code >> 9u);
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
void register_iq2_xs(EncodingTable& table) {
  table.add({.dtype = DType::iq2_xs,
             .name = "iq2_xs",
             .block_elements = 256,
             .block_bytes = 74,
             .group_elements = 16,
             .decode = decode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
