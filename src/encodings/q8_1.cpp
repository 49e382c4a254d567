// GGUF's Q8_1: 32 elements in 36 bytes: an f16 scale, an f16 with scale * the sum of the codes, and 32 signed
// bytes. Element = scale * byte; the sum is there for products of integers, and is not read here.
#include "encodings/block.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

constexpr size_t kElements = 32;
constexpr size_t kCodes = 4;  // the byte where they begin

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (size_t i = 0; i < kElements; ++i)
    values[i] = scale * static_cast<float>(signed_byte_at(block + kCodes + i));
}

void encode(const float* values, std::byte* block) {
  float largest = 0;
  for (size_t i = 0; i < kElements; ++i) largest = std::max(largest, std::abs(values[i]));
  const float scale = put_half(block, largest / 127);
  int sum = 0;
  for (size_t i = 0; i < kElements; ++i) {
    const int code = quantum(values[i], scale, -127, 127);
    put_byte(block + kCodes + i, code);
    sum += code;
  }
  put_half(block + 2, scale * static_cast<float>(sum));
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the elements begin
}
fn x_group_at(i: u32) -> x_Group {
  return x_Group(unpack2x16float(x_word(x_block(i))).x, x_block(i) + 1u);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f { return g.scale * vec4f(unpack4xI8(x_word(g.at + i))); }
)";

}  // namespace

namespace encodings {
void register_q8_1(EncodingTable& table) {
  table.add({.dtype = DType::q8_1,
             .name = "q8_1",
             .block_elements = kElements,
             .block_bytes = 36,
             .group_elements = kElements,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
