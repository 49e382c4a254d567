// GGUF's IQ2_XS: 256 elements in 74 bytes: f16 d, 32 times 16 bits with an entry of the code book (nine bits)
// and seven signs, then 16 scales in a nibble each, for groups of 16. Element = d * (scale + 1/2) / 4 *
// level, with its sign.
#include "encodings/code_books.h"
#include "encodings/encoding.h"
#include "encodings/iq2_scales.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned code = code_books::u16_at(block + 2 + i / 8 * 2);
    const unsigned entry = code_books::entry(code_books::kIq2Xs, code & 511);
    const float scale = iq2_scales::at(block + 66, d, i);
    const float level = code_books::kIq2Levels[code_books::level_of_eight(entry, i % 8)];
    values[i] = code_books::with_sign(scale * level, code_books::eight_signs(code >> 9), i % 8);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq2Xs) + std::string(iq2_scales::kWgsl) + R"(
const x_SCALES: u32 = 16u;
struct x_Group {
  scale: f32,
  codes: u32,
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let g = i % 16u;
  return x_Group(x_scale(i), x_word(block + g));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let code = (g.codes >> (16u * (i / 2u))) & 0xffffu;
  let signs = x_eight_signs(code >> 9u);
  return g.scale * x_signed(x_iq2(x_two_bits(x_entry(code & 511u), i)), signs >> (4u * (i % 2u)));
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
