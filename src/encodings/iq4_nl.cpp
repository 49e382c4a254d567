// GGUF's IQ4_NL: 32 elements in 18 bytes, as Q4_0, but with the values of iq4_values.h for the nibbles.
// Element = scale * value.
#include <string>

#include "encodings/encoding.h"
#include "encodings/iq4_values.h"

namespace rlx {
namespace {

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (size_t i = 0; i < 32; ++i)
    values[i] = scale * iq4::value_of((byte_at(block + 2 + i % 16) >> (i / 16 * 4)) & 15);
}

void encode(const float* values, std::byte* block) {
  const float scale = put_half(block, iq4::fit(std::span(values, 32)));
  for (size_t i = 0; i < 16; ++i)
    put_byte(block + 2 + i, iq4::code_of(values[i], scale) | iq4::code_of(values[i + 16], scale) << 4);
}

std::string_view wgsl() {
  static const std::string text = std::string(iq4::kWgsl) + R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the nibbles begin
}
fn x_group_at(i: u32) -> x_Group { return x_Group(x_half(i), x_block(i)); }
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * x_values(x_word(g.at + i % 4u) >> (4u * (i / 4u)));
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_iq4_nl(EncodingTable& table) {
  table.add({.dtype = DType::iq4_nl,
             .name = "iq4_nl",
             .block_elements = 32,
             .block_bytes = 18,
             .group_elements = 32,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
