// GGUF's Q8_K: 256 elements in 292 bytes: an f32 scale, 256 signed bytes, and the sums of sixteen bytes each
// in 16 bits. Element = scale * byte; the sums are there for products of integers, and are not read here.
#include "encodings/block.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

constexpr size_t kElements = 256;
constexpr size_t kCodes = 4;  // the byte where they begin
constexpr size_t kSums = kCodes + kElements;

void decode(const std::byte* block, float* values) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  for (size_t i = 0; i < kElements; ++i)
    values[i] = scale * static_cast<float>(signed_byte_at(block + kCodes + i));
}

void encode(const float* values, std::byte* block) {
  float largest = 0;
  for (size_t i = 0; i < kElements; ++i) largest = std::max(largest, std::abs(values[i]));
  const float scale = largest / 127;
  std::memcpy(block, &scale, sizeof scale);
  for (size_t group = 0; group < kElements / 16; ++group) {
    int sum = 0;
    for (size_t i = group * 16; i < (group + 1) * 16; ++i) {
      const int code = quantum(values[i], scale, -127, 127);
      put_byte(block + kCodes + i, code);
      sum += code;
    }
    put_byte(block + kSums + 2 * group, sum & 255);
    put_byte(block + kSums + 2 * group + 1, (sum >> 8) & 255);
  }
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the elements begin
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  return x_Group(bitcast<f32>(x_word(block)), block + 1u + 8u * (i % 8u));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f { return g.scale * vec4f(unpack4xI8(x_word(g.at + i))); }
)";

}  // namespace

namespace encodings {
void register_q8_k(EncodingTable& table) {
  table.add({.dtype = DType::q8_k,
             .name = "q8_k",
             .block_elements = kElements,
             .block_bytes = 292,
             .group_elements = 32,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
