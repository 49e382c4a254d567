// GGUF's IQ1_M: 256 elements in 56 bytes: the low bytes of 32 entries of the code book of IQ1_S, 16 bytes
// with two nibbles each, the upper three bits of an entry and the sign of its shift, then four times 16 bits:
// the scales of four groups of 16 in three bits each, and at the top four bits of f16 d. Element as in IQ1_S.
#include "encodings/code_books.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  unsigned d_bits = 0;
  for (unsigned i = 0; i < 4; ++i) d_bits |= code_books::u16_at(block + 48 + 2 * i) >> 12 << (4 * i);
  const float d = float_from_f16(static_cast<uint16_t>(d_bits));
  for (size_t i = 0; i < 256; ++i) {
    const unsigned nibble = (static_cast<unsigned>(byte_at(block + 32 + i / 16)) >> (i / 8 % 2 * 4)) & 15;
    const unsigned entry = code_books::entry(
        code_books::kIq1S, static_cast<unsigned>(byte_at(block + i / 8)) | (nibble & 7) << 8);
    const unsigned step = (code_books::u16_at(block + 48 + i / 64 * 2) >> (i / 16 % 4 * 3)) & 7;
    const float scale = d * static_cast<float>(2 * step + 1);
    const float shift = nibble >= 8 ? -0.125F : 0.125F;
    values[i] = scale * (static_cast<float>(code_books::level_of_eight(entry, i % 8)) - 1 + shift);
  }
}

std::string_view wgsl() {
  static const std::string text = code_books::wgsl(code_books::kIq1S) + R"(
struct x_Group {
  scale: f32,
  low: u32,  // the low bytes of two entries
  nibbles: u32,
}
// d, from the last two words of a block.
fn x_d(a: u32, b: u32) -> f32 {
  let d = ((a >> 12u) & 15u) | ((a >> 24u) & 0xf0u) | ((b >> 4u) & 0xf00u) | ((b >> 16u) & 0xf000u);
  return unpack2x16float(d).x;
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let g = i % 16u;
  let a = x_word(block + 12u);
  let b = x_word(block + 13u);
  let step = (select(a, b, g >= 8u) >> (16u * (g / 4u % 2u) + 3u * (g % 4u))) & 7u;
  return x_Group(x_d(a, b) * f32(i32(2u * step + 1u)), x_word(block + g / 2u) >> (16u * (g % 2u)),
                 x_word(block + 8u + g / 4u) >> (8u * (g % 4u)));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let nibble = (g.nibbles >> (4u * (i / 2u))) & 15u;
  let entry = x_entry(((g.low >> (8u * (i / 2u))) & 255u) | ((nibble & 7u) << 8u));
  return g.scale * (x_two_bits(entry, i) + select(-0.875, -1.125, nibble >= 8u));
}

// Two entries of a lane share a scale.
const x_EIGHTH_FACTORS: u32 = 4u;
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let block = x_block(i);
  let a = x_word(block + 12u);
  let b = x_word(block + 13u);
  let steps = select(a, b, lane >= 4u) >> (8u * (lane & 2u) + 6u * (lane & 1u));
  return (x_d(a, b) * vec2f(vec2i(2u * (vec2u(steps, steps >> 3u) & vec2u(7u)) + 1u))).xxyy;
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let low = x_eight(block, 4u, 2u, 1u, lane);
  let nibbles = x_eight(block + 8u, 2u, 1u, 0u, lane) >> (16u * (lane & 1u));
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let nibble = nibbles >> (4u * j);
    let levels = x_levels(((low >> (8u * j)) & 255u) | ((nibble & 7u) << 8u));
    let shift = select(-0.875, -1.125, (nibble & 8u) != 0u);
    out[j] = levels[0] + shift;
    out[j + 4u] = levels[1] + shift;
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq1_m(EncodingTable& table) {
  table.add({.dtype = DType::iq1_m,
             .name = "iq1_m",
             .block_elements = 256,
             .block_bytes = 56,
             .group_elements = 16,
             .decode = decode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
