// GGUF's IQ4_XS: 256 elements in 136 bytes: f16 d, 16 bits with the upper two bits of eight scales, four
// bytes with their low nibbles, then for each of eight groups of 32 the 16 bytes of nibbles that IQ4_NL has.
// Element = d * (scale - 32) * value.
#include <array>
#include <string>

#include "encodings/encoding.h"
#include "encodings/iq4_values.h"

namespace rlx {
namespace {

constexpr size_t kNibbles = 8;  // the byte where they begin

size_t byte_of(size_t element) { return kNibbles + element / 32 * 16 + element % 16; }
size_t shift_of(size_t element) { return element / 16 % 2 * 4; }

void decode(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < 256; ++i) {
    const size_t g = i / 32;
    const int low = (byte_at(block + 4 + g / 2) >> (g % 2 * 4)) & 15;
    const int high = (byte_at(block + 2 + g / 4) >> (g % 4 * 2)) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    values[i] = scale * iq4::value_of((byte_at(block + byte_of(i)) >> shift_of(i)) & 15);
  }
}

void encode(const float* values, std::byte* block) {
  std::array<float, 8> scales{};
  float largest = 0;
  for (size_t g = 0; g < 8; ++g) {
    scales[g] = iq4::fit(std::span(values + 32 * g, 32));
    if (std::abs(scales[g]) > std::abs(largest)) largest = scales[g];
  }
  std::fill_n(block, 136, std::byte{0});
  const float d = put_half(block, largest / -32);
  for (size_t g = 0; g < 8; ++g) {
    const int scale = quantum(scales[g], d, -32, 31);
    block[4 + g / 2] |= static_cast<std::byte>(((scale + 32) & 15) << (g % 2 * 4));
    block[2 + g / 4] |= static_cast<std::byte>(((scale + 32) >> 4) << (g % 4 * 2));
    for (size_t i = 32 * g; i < 32 * (g + 1); ++i) {
      const int code = iq4::code_of(values[i], d * static_cast<float>(scale));
      block[byte_of(i)] |= static_cast<std::byte>(code << shift_of(i));
    }
  }
}

std::string_view wgsl() {
  static const std::string text = std::string(iq4::kWgsl) + R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the nibbles begin
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  let g = i % 8u;
  let first = x_word(block);
  let scale = ((x_word(block + 1u) >> (4u * g)) & 15u) | (((first >> (16u + 2u * g)) & 3u) << 4u);
  return x_Group(unpack2x16float(first).x * f32(i32(scale) - 32), block + 2u + 4u * g);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * x_values(x_word(g.at + i % 4u) >> (4u * (i / 4u)));
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq4_xs(EncodingTable& table) {
  table.add({.dtype = DType::iq4_xs,
             .name = "iq4_xs",
             .block_elements = 256,
             .block_bytes = 136,
             .group_elements = 32,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
