// GGUF's Q3_K: 256 elements in 110 bytes: 32 bytes of third bits, 64 bytes of codes of two bits, 12 bytes
// with sixteen 6-bit scales, f16 d. Sixteen groups of 16; element = d * (scale - 32) * (code - 4). The two
// low bits of the codes lie as in Q2_K, and bit t of the bytes of third bits belongs to the elements from 32t
// on.
#include <array>

#include "encodings/encoding.h"
#include "encodings/fit.h"

namespace rlx {
namespace {

constexpr size_t kGroups = 16;
constexpr size_t kGroup = 16;
constexpr size_t kCodes = 32;  // the byte where they begin
constexpr size_t kScales = 96;
constexpr size_t kD = 108;

constexpr size_t byte_of(size_t element) { return kCodes + element / 128 * 32 + element % 32; }
constexpr size_t shift_of(size_t element) { return element / 32 % 4 * 2; }

int scale_of(const std::byte* scales, size_t group) {
  const int low = (byte_at(scales + group % 8) >> (group / 8 * 4)) & 15;
  const int high = (byte_at(scales + 8 + group % 4) >> (group / 4 * 2)) & 3;
  return (low | high << 4) - 32;
}

void decode(const std::byte* block, float* values) {
  const float d = half_at(block + kD);
  for (size_t i = 0; i < kGroups * kGroup; ++i) {
    const int code =
        ((byte_at(block + byte_of(i)) >> shift_of(i)) & 3) | ((byte_at(block + i % 32) >> (i / 32)) & 1) << 2;
    values[i] = d * static_cast<float>(scale_of(block + kScales, i / kGroup)) * static_cast<float>(code - 4);
  }
}

void encode(const float* values, std::byte* block) {
  const GroupSteps<kGroups> steps = fit_steps<kGroups>(values, kGroup, -4, 3);
  std::fill_n(block, kD, std::byte{0});
  const float d = put_half(block + kD, steps.largest / -32);
  for (size_t g = 0; g < kGroups; ++g) {
    const int scale = quantum(steps.of[g], d, -32, 31);
    block[kScales + g % 8] |= static_cast<std::byte>(((scale + 32) & 15) << (g / 8 * 4));
    block[kScales + 8 + g % 4] |= static_cast<std::byte>(((scale + 32) >> 4) << (g / 4 * 2));
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      const int code = quantum(values[i], d * static_cast<float>(scale), -4, 3) + 4;
      block[byte_of(i)] |= static_cast<std::byte>((code & 3) << shift_of(i));
      block[i % 32] |= static_cast<std::byte>((code >> 2) << (i / 32));
    }
  }
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  block: u32,
  group: u32,  // of the block
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let g = i % 16u;
  let low = (x_word(block + 24u + g % 8u / 4u) >> (8u * (g % 4u) + 4u * (g / 8u))) & 15u;
  let high = (x_word(block + 26u) >> (8u * (g % 4u) + 2u * (g / 4u))) & 3u;
  return x_Group(x_half(i / 16u) * f32(i32(low | (high << 4u)) - 32), block, g);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let at = 4u * (g.group % 2u) + i;
  let low = (x_word(g.block + 8u + 8u * (g.group / 8u) + at) >> (2u * (g.group % 8u / 2u))) & 0x03030303u;
  let third = (x_word(g.block + at) >> (g.group / 2u)) & 0x01010101u;
  return g.scale * (vec4f(unpack4xI8(low | (third << 2u))) - 4.0);
}

// A lane has two words of the codes of half a block, and the third bits that belong to them: eight elements of each quarter.
const x_EIGHTH_FACTORS: u32 = 4u;
const x_EIGHTH_UNIT: vec4f = vec4f(1.0, 0x1p-8, 0x1p-16, 0x1p-24);  // bytes are converted where they stand
fn x_eighth_place(j: u32, lane: u32) -> u32 {
  return 128u * (lane / 4u) + 8u * (lane % 4u) + 32u * (j % 4u) + 4u * (j / 4u);
}
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let block = x_block(i);
  // Of two quarters each, in bytes 0 and 2; the group within a quarter is that of all eight elements.
  let shift = 4u * (lane & 2u) + 4u * (lane / 4u);
  let high = x_word(block + 26u) >> shift;
  let first = ((x_word(block + 24u) >> shift) & 0x000f000fu) | ((high & 0x00030003u) << 4u);
  let last = ((x_word(block + 25u) >> shift) & 0x000f000fu) | ((high & 0x000c000cu) << 2u);
  return x_half(i) * (vec4f(vec4i(vec4u(first & 255u, first >> 16u, last & 255u, last >> 16u))) - 32.0);
}
fn x_eighth_four(codes: u32, thirds: u32) -> vec4f {
  let bytes = vec4i(bitcast<i32>((codes & 0x03030303u) | ((thirds & 0x01010101u) << 2u)));
  return vec4f(bytes & vec4i(0xff, 0xff00, 0xff0000, 0x7f000000)) - vec4f(4.0, 0x1p10, 0x1p18, 0x1p26);
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 2u; j++) {
    let codes = x_eight(block + 8u + j, 8u, 4u, 2u, lane);
    let thirds = x_eight(block + j, 0u, 4u, 2u, lane) >> (4u * (lane / 4u));
    out[4u * j] = x_eighth_four(codes, thirds);
    out[4u * j + 1u] = x_eighth_four(codes >> 2u, thirds >> 1u);
    out[4u * j + 2u] = x_eighth_four(codes >> 4u, thirds >> 2u);
    out[4u * j + 3u] = x_eighth_four(codes >> 6u, thirds >> 3u);
  }
  return out;
}
)";

}  // namespace

namespace encodings {
void register_q3_k(EncodingTable& table) {
  table.add({.dtype = DType::q3_k,
             .name = "q3_k",
             .block_elements = kGroups * kGroup,
             .block_bytes = 110,
             .apart = kD,
             .group_elements = kGroup,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
