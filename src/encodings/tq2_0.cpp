// GGUF's TQ2_0: 256 elements in 66 bytes: 64 bytes of codes of two bits, f16 scale. Element = scale * (code -
// 1). Each half of the elements has 32 bytes: the bits 0 and 1 of all of them, then 2 and 3, and so on.
#include "encodings/encoding.h"
#include "encodings/ternary.h"

namespace rlx {
namespace {

constexpr size_t kScale = 64;  // the byte where it is

size_t byte_of(size_t element) { return element / 128 * 32 + element % 32; }
size_t shift_of(size_t element) { return element / 32 % 4 * 2; }

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block + kScale);
  for (size_t i = 0; i < 256; ++i)
    values[i] = scale * static_cast<float>(((byte_at(block + byte_of(i)) >> shift_of(i)) & 3) - 1);
}

void encode(const float* values, std::byte* block) {
  std::fill_n(block, kScale, std::byte{0});
  const float scale = put_half(block + kScale, ternary::scale_of(std::span(values, 256)));
  for (size_t i = 0; i < 256; ++i)
    block[byte_of(i)] |= static_cast<std::byte>((quantum(values[i], scale, -1, 1) + 1) << shift_of(i));
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the bytes of its codes begin
  shift: u32,  // to its codes
}
fn x_group_at(i: u32) -> x_Group {
  return x_Group(x_half(i / 8u), x_block(i / 8u) + 8u * (i % 8u / 4u), 2u * (i % 4u));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * (vec4f(unpack4xI8((x_word(g.at + i) >> g.shift) & 0x03030303u)) - 1.0);
}
)";

}  // namespace

namespace encodings {
void register_tq2_0(EncodingTable& table) {
  table.add({.dtype = DType::tq2_0,
             .name = "tq2_0",
             .block_elements = 256,
             .block_bytes = 66,
             .apart = kScale,
             .group_elements = 32,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
