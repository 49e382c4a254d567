// GGUF's Q4_0: 32 elements in 18 bytes, an f16 scale and 16 bytes, whose low nibbles are elements 0 to 15 and
// whose high nibbles are elements 16 to 31. Element = scale * (nibble - 8).
#include "encodings/encoding.h"
#include "encodings/fit.h"

namespace rlx {
namespace {

constexpr int kElements = 32;

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kElements; ++i) {
    const int nibble = (byte_at(block + 2 + i % 16) >> (i / 16 * 4)) & 15;
    values[i] = scale * static_cast<float>(nibble - 8);
  }
}

void encode(const float* values, std::byte* block) {
  const float scale = put_half(block, fit_step(std::span(values, kElements), -8, 7));
  for (int i = 0; i < kElements / 2; ++i) {
    const int first = quantum(values[i], scale, -8, 7) + 8;
    const int second = quantum(values[i + 16], scale, -8, 7) + 8;
    put_byte(block + 2 + i, first | second << 4);
  }
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the nibbles begin
}
fn x_group_at(i: u32) -> x_Group { return x_Group(x_half(i), x_block(i)); }
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let nibbles = (x_word(g.at + i % 4u) >> (4u * (i / 4u))) & 0x0f0f0f0fu;
  return g.scale * (vec4f(unpack4xI8(nibbles)) - 8.0);
}
)";

}  // namespace

namespace encodings {
void register_q4_0(EncodingTable& table) {
  table.add({.dtype = DType::q4_0,
             .name = "q4_0",
             .block_elements = kElements,
             .block_bytes = 18,
             .group_elements = kElements,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
