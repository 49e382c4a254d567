// GGUF's Q4_1: 32 elements in 20 bytes: an f16 scale, an f16 minimum, and nibbles as in Q4_0. Element =
// scale * nibble + minimum.
#include "encodings/encoding.h"
#include "encodings/fit.h"

namespace rlx {
namespace {

constexpr size_t kElements = 32;
constexpr size_t kNibbles = 4;  // the byte where they begin

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (size_t i = 0; i < kElements; ++i) {
    const int nibble = (byte_at(block + kNibbles + i % 16) >> (i / 16 * 4)) & 15;
    values[i] = scale * static_cast<float>(nibble) + minimum;
  }
}

void encode(const float* values, std::byte* block) {
  const Fit fit = fit_range(std::span(values, kElements), 15, false);
  const float scale = put_half(block, fit.step);
  const float minimum = put_half(block + 2, fit.low);
  for (size_t i = 0; i < kElements / 2; ++i) {
    const int first = quantum(values[i] - minimum, scale, 0, 15);
    const int second = quantum(values[i + 16] - minimum, scale, 0, 15);
    put_byte(block + kNibbles + i, first | second << 4);
  }
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  minimum: f32,
  at: u32,  // the word where the nibbles begin
}
fn x_group_at(i: u32) -> x_Group {
  let d = unpack2x16float(x_word(x_block(i)));
  return x_Group(d.x, d.y, x_block(i) + 1u);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let nibbles = (x_word(g.at + i % 4u) >> (4u * (i / 4u))) & 0x0f0f0f0fu;
  return g.scale * vec4f(unpack4xI8(nibbles)) + g.minimum;
}
)";

}  // namespace

namespace encodings {
void register_q4_1(EncodingTable& table) {
  table.add({.dtype = DType::q4_1,
             .name = "q4_1",
             .block_elements = kElements,
             .block_bytes = 20,
             .group_elements = kElements,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
