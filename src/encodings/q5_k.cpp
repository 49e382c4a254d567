// GGUF's Q5_K: 256 elements in 176 bytes: the 16 bytes of k_scales.h, 32 bytes whose bit g is the fifth bit
// of an element of group g, and 128 bytes of nibbles as in Q4_K.
#include <string>

#include "encodings/encoding.h"
#include "encodings/k_scales.h"

namespace rlx {
namespace {

using k_scales::kGroup;
using k_scales::kGroups;

constexpr size_t kNibbles = k_scales::kBytes + kGroup;  // the byte where they begin

void decode(const std::byte* block, float* values) {
  const k_scales::Steps steps = k_scales::steps_of(block);
  for (size_t g = 0; g < kGroups; ++g) {
    for (size_t i = 0; i < kGroup; ++i) {
      const int nibble = (byte_at(block + kNibbles + g / 2 * kGroup + i) >> (g % 2 * 4)) & 15;
      const int fifth = (byte_at(block + k_scales::kBytes + i) >> g) & 1;
      values[g * kGroup + i] = steps.scale[g] * static_cast<float>(nibble | fifth << 4) - steps.minimum[g];
    }
  }
}

void encode(const float* values, std::byte* block) {
  const k_scales::Steps steps = k_scales::put_steps(block, values, 31);
  std::fill_n(block + k_scales::kBytes, kGroup + kGroups * kGroup / 2, std::byte{0});
  for (size_t g = 0; g < kGroups; ++g) {
    for (size_t i = 0; i < kGroup; ++i) {
      const int code = quantum(values[g * kGroup + i] + steps.minimum[g], steps.scale[g], 0, 31);
      block[kNibbles + g / 2 * kGroup + i] |= static_cast<std::byte>((code & 15) << (g % 2 * 4));
      block[k_scales::kBytes + i] |= static_cast<std::byte>((code >> 4) << g);
    }
  }
}

std::string_view wgsl() {
  static const std::string text = std::string(k_scales::kWgsl) + std::string(k_scales::kEighthsWgsl) + R"(
struct x_Group {
  scale: f32,
  minimum: f32,
  block: u32,
  group: u32,  // of the block
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  let steps = x_steps(block, i % 8u);
  return x_Group(steps.x, steps.y, block, i % 8u);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let nibbles = (x_word(g.block + 12u + 8u * (g.group / 2u) + i) >> (4u * (g.group % 2u))) & 0x0f0f0f0fu;
  let fifth = (x_word(g.block + 4u + i) >> g.group) & 0x01010101u;
  return g.scale * vec4f(unpack4xI8(nibbles | (fifth << 4u))) - g.minimum;
}

fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let steps = x_pair_steps(block, lane);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let nibbles = x_eight(block + 12u + j, 16u, 8u, 4u, lane);
    let fifth = x_eight(block + 4u + j, 0u, 0u, 4u, lane) >> (lane & 6u);  // a bit of each byte for each group
    let low = (nibbles & 0x0f0f0f0fu) | ((fifth & 0x01010101u) << 4u);
    let high = ((nibbles >> 4u) & 0x0f0f0f0fu) | ((fifth & 0x02020202u) << 3u);
    let mask = vec4i(0x1f, 0x1f00, 0x1f0000, 0x1f000000);
    out[2u * j] = vec4f(vec4i(bitcast<i32>(low)) & mask) * steps.low - steps.low_minimum;
    out[2u * j + 1u] = vec4f(vec4i(bitcast<i32>(high)) & mask) * steps.high - steps.high_minimum;
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_q5_k(EncodingTable& table) {
  table.add({.dtype = DType::q5_k,
             .name = "q5_k",
             .block_elements = kGroups * kGroup,
             .block_bytes = 176,
             .group_elements = kGroup,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
