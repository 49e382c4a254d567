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

// A lane has two words of the pairs of half a block, and the nibbles that belong to them: eight elements of each quarter.
const x_EIGHTH_FACTORS: u32 = 4u;
const x_EIGHTH_UNIT: vec4f = vec4f(1.0, 0x1p-8, 0x1p-16, 0x1p-24);  // bytes are converted where they stand
fn x_eighth_place(j: u32, lane: u32) -> u32 {
  return 128u * (lane / 4u) + 8u * (lane % 4u) + 32u * (j % 4u) + 4u * (j / 4u);
}
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let block = x_block(i);
  // Of two quarters each; the group within a quarter is that of all eight elements.
  let first = x_eight(block + 48u, 2u, 0u, 0u, lane) >> (4u * (lane & 2u));
  let last = x_eight(block + 49u, 2u, 0u, 0u, lane) >> (4u * (lane & 2u));
  return x_half(i) * vec4f(unpack4xI8((first & 0x00ff00ffu) | ((last & 0x00ff00ffu) << 8u)).xzyw);
}
fn x_eighth_four(codes: u32) -> vec4f {
  let bytes = vec4f(vec4i(bitcast<i32>(codes)) & vec4i(0x3f, 0x3f00, 0x3f0000, 0x3f000000));
  return bytes - vec4f(32.0, 0x1p13, 0x1p21, 0x1p29);
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 2u; j++) {
    let pairs = x_eight(block + 32u + j, 8u, 4u, 2u, lane);
    let even = x_eight(block + j, 16u, 4u, 2u, lane);  // quarters 0 and 2
    let odd = x_eight(block + 8u + j, 16u, 4u, 2u, lane);
    out[4u * j] = x_eighth_four((even & 0x0f0f0f0fu) | ((pairs << 4u) & 0x30303030u));
    out[4u * j + 1u] = x_eighth_four((odd & 0x0f0f0f0fu) | ((pairs << 2u) & 0x30303030u));
    out[4u * j + 2u] = x_eighth_four(((even >> 4u) & 0x0f0f0f0fu) | (pairs & 0x30303030u));
    out[4u * j + 3u] = x_eighth_four(((odd >> 4u) & 0x0f0f0f0fu) | ((pairs >> 2u) & 0x30303030u));
  }
  return out;
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
