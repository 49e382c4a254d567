// GGUF's IQ2_S: 256 elements in 82 bytes: f16 d, the low bytes of 32 entries of the code book, 32 bytes of
// signs, 8 bytes with the upper two bits of four entries each, then 16 scales in a nibble each, for groups
// of 16. Element = d * (scale + 1/2) / 4 * level, with its sign.
#include "encodings/code_books.h"
#include "encodings/encoding.h"
#include "encodings/iq2_scales.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const int high = (byte_at(block + 66 + i / 32) >> (i / 8 % 4 * 2)) & 3;
    const int code = byte_at(block + 2 + i / 8) | high << 8;
    const unsigned entry = code_books::entry(code_books::kIq2S, static_cast<unsigned>(code));
    const auto signs = static_cast<unsigned>(byte_at(block + 34 + i / 8));
    const float scale = iq2_scales::at(block + 74, d, i);
    const float level = code_books::kIq2Levels[code_books::level_of_eight(entry, i % 8)];
    values[i] = code_books::with_sign(scale * level, signs, i % 8);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq2S) + std::string(iq2_scales::kWgsl) + R"(
const x_SCALES: u32 = 18u;
struct x_Group {
  scale: f32,
  low: u32,  // the low bytes of two entries
  high: u32,  // two bits for each
  signs: u32,
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let g = i % 16u;
  let shift = 16u * (g % 2u);
  return x_Group(x_scale(i), x_word(block + g / 2u) >> shift,
                 x_word(block + 16u + g / 8u) >> (4u * (g % 8u)), x_word(block + 8u + g / 2u) >> shift);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let which = i / 2u;
  let entry = x_entry(((g.low >> (8u * which)) & 255u) | (((g.high >> (2u * which)) & 3u) << 8u));
  return g.scale * x_signed(x_iq2(x_two_bits(entry, i)), g.signs >> (4u * i));
}

fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let low = x_eight(block, 4u, 2u, 1u, lane);
  let signs = x_eight(block + 8u, 4u, 2u, 1u, lane);
  let high = x_eight(block + 16u, 1u, 0u, 0u, lane) >> (8u * (lane % 4u));
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let levels = x_levels(((low >> (8u * j)) & 255u) | (((high >> (2u * j)) & 3u) << 8u));
    out[j] = x_signed(x_iq2(levels[0]), signs >> (8u * j));
    out[j + 4u] = x_signed(x_iq2(levels[1]), signs >> (8u * j + 4u));
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq2_s(EncodingTable& table) {
  table.add({.dtype = DType::iq2_s,
             .name = "iq2_s",
             .block_elements = 256,
             .block_bytes = 82,
             .group_elements = 16,
             .decode = decode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
