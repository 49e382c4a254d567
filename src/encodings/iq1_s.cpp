// GGUF's IQ1_S: 256 elements in 50 bytes: f16 d, the low bytes of 32 entries of the code book, then 16 bits
// for each of eight groups of 32: the upper three bits of four entries, a scale of three bits, and the sign
// of a shift. Element = d * (2 * scale + 1) * (level + shift), with levels -1, 0 and 1 and a shift of 1/8 or
// -1/8.
#include "encodings/code_books.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned bits = code_books::u16_at(block + 34 + i / 32 * 2);
    const unsigned high = (bits >> (i % 32 / 8 * 3)) & 7;
    const unsigned entry =
        code_books::entry(code_books::kIq1S, static_cast<unsigned>(byte_at(block + 2 + i / 8)) | high << 8);
    const float scale = d * static_cast<float>(2 * ((bits >> 12) & 7) + 1);
    const float shift = (bits >> 15) != 0 ? -0.125F : 0.125F;
    values[i] = scale * (static_cast<float>(code_books::level_of_eight(entry, i % 8)) - 1 + shift);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq1S) + R"(
struct x_Group {
  scale: f32,
  shift: f32,  // less the level of 0
  low: u32,  // the low bytes of four entries
  high: u32,  // three bits for each
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  let g = i % 8u;
  let bits = (x_word(block + 8u + g / 2u) >> (16u * (g % 2u))) & 0xffffu;
  return x_Group(x_half(i / 8u) * f32(i32(2u * ((bits >> 12u) & 7u) + 1u)),
                 select(-0.875, -1.125, bits >= 0x8000u), x_word(block + g), bits);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let which = i / 2u;
  let entry = x_entry(((g.low >> (8u * which)) & 255u) | (((g.high >> (3u * which)) & 7u) << 8u));
  return g.scale * (x_two_bits(entry, i) + g.shift);
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq1_s(EncodingTable& table) {
  table.add({.dtype = DType::iq1_s,
             .name = "iq1_s",
             .block_elements = 256,
             .block_bytes = 50,
             .group_elements = 32,
             .decode = decode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
