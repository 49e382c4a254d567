// GGUF's Q6_K: 256 elements in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper pairs of bits, 16
// signed bytes, f16 d. Sixteen groups of 16; element = d * byte of the group * (code - 32). Each half of the
// elements has half of the nibbles and of the pairs; its four quarters of 32 are the low nibbles of its first
// and its second 32 bytes, then the high nibbles, and the pairs at bits 0, 2, 4 and 6.
#include <array>

#include "encodings/encoding.h"
#include "encodings/fit.h"

namespace rlx {
namespace {

constexpr size_t kGroups = 16;
constexpr size_t kGroup = 16;
constexpr size_t kPairs = 128;  // the byte where they begin
constexpr size_t kScales = 192;
constexpr size_t kD = 208;

// Where the code of an element is.
struct Place {
  size_t nibble;  // the byte
  size_t nibble_shift;
  size_t pair;
  size_t pair_shift;
};

constexpr Place place_of(size_t element) {
  const size_t half = element / 128;
  const size_t quarter = element / 32 % 4;
  const size_t i = element % 32;
  return {half * 64 + quarter % 2 * 32 + i, quarter / 2 * 4, kPairs + half * 32 + i, quarter * 2};
}

void decode(const std::byte* block, float* values) {
  const float d = half_at(block + kD);
  for (size_t i = 0; i < kGroups * kGroup; ++i) {
    const Place p = place_of(i);
    const int code = ((byte_at(block + p.nibble) >> p.nibble_shift) & 15) |
                     ((byte_at(block + p.pair) >> p.pair_shift) & 3) << 4;
    const float scale = d * static_cast<float>(signed_byte_at(block + kScales + i / kGroup));
    values[i] = scale * static_cast<float>(code - 32);
  }
}

void encode(const float* values, std::byte* block) {
  const GroupSteps<kGroups> steps = fit_steps<kGroups>(values, kGroup, -32, 31);
  std::fill_n(block, kScales, std::byte{0});
  const float d = put_half(block + kD, steps.largest / -128);
  for (size_t g = 0; g < kGroups; ++g) {
    const int scale = quantum(steps.of[g], d, -128, 127);
    put_byte(block + kScales + g, scale);
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      const int code = quantum(values[i], d * static_cast<float>(scale), -32, 31) + 32;
      const Place p = place_of(i);
      block[p.nibble] |= static_cast<std::byte>((code & 15) << p.nibble_shift);
      block[p.pair] |= static_cast<std::byte>((code >> 4) << p.pair_shift);
    }
  }
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  nibbles: u32,  // the word where they begin
  pairs: u32,  // likewise
  quarter: u32,  // of half a block
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let g = i % 16u;
  let scale = unpack4xI8(x_word(block + 48u + g / 4u))[g % 4u];
  let side = g / 8u;
  let quarter = g % 8u / 2u;
  return x_Group(x_half(i / 16u) * f32(scale), block + 16u * side + 8u * (quarter % 2u) + 4u * (g % 2u),
                 block + 32u + 8u * side + 4u * (g % 2u), quarter);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let nibbles = (x_word(g.nibbles + i) >> (4u * (g.quarter / 2u))) & 0x0f0f0f0fu;
  let pairs = (x_word(g.pairs + i) >> (2u * g.quarter)) & 0x03030303u;
  return g.scale * (vec4f(unpack4xI8(nibbles | (pairs << 4u))) - 32.0);
}
)";

}  // namespace

namespace encodings {
void register_q6_k(EncodingTable& table) {
  table.add({.dtype = DType::q6_k,
             .name = "q6_k",
             .block_elements = kGroups * kGroup,
             .block_bytes = 210,
             .apart = kD,
             .group_elements = kGroup,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
