// GGUF's Q4_K: 256 elements in 144 bytes: the 16 bytes of k_scales.h, 128 bytes of nibbles. Eight groups of
// 32; groups 2t and 2t+1 are the low and the high nibbles of the bytes 32t to 32t+31.
#include <string>

#include "encodings/encoding.h"
#include "encodings/k_scales.h"

namespace rlx {
namespace {

using k_scales::kGroup;
using k_scales::kGroups;

void decode(const std::byte* block, float* values) {
  const k_scales::Steps steps = k_scales::steps_of(block);
  for (size_t g = 0; g < kGroups; ++g) {
    const std::byte* nibbles = block + k_scales::kBytes + g / 2 * kGroup;
    for (size_t i = 0; i < kGroup; ++i) {
      const int nibble = (byte_at(nibbles + i) >> (g % 2 * 4)) & 15;
      values[g * kGroup + i] = steps.scale[g] * static_cast<float>(nibble) - steps.minimum[g];
    }
  }
}

void encode(const float* values, std::byte* block) {
  const k_scales::Steps steps = k_scales::put_steps(block, values, 15);
  for (size_t g = 0; g < kGroups; ++g) {
    std::byte* nibbles = block + k_scales::kBytes + g / 2 * kGroup;
    for (size_t i = 0; i < kGroup; ++i) {
      const int nibble = quantum(values[g * kGroup + i] + steps.minimum[g], steps.scale[g], 0, 15);
      put_byte(nibbles + i, g % 2 == 0 ? nibble : byte_at(nibbles + i) | nibble << 4);
    }
  }
}

std::string_view wgsl() {
  static const std::string text = std::string(k_scales::kWgsl) + std::string(k_scales::kEighthsWgsl) + R"(
struct x_Group {
  scale: f32,
  minimum: f32,
  at: u32,  // the word where the bytes of its nibbles begin
  shift: u32,  // to its nibbles
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 8u);
  let g = i % 8u;
  let steps = x_steps(block, g);
  return x_Group(steps.x, steps.y, block + 4u + 8u * (g / 2u), 4u * (g % 2u));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * vec4f(unpack4xI8((x_word(g.at + i) >> g.shift) & 0x0f0f0f0fu)) - g.minimum;
}

fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let steps = x_pair_steps(block, lane);
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let codes = vec4i(bitcast<i32>(x_eight(block + 4u + j, 16u, 8u, 4u, lane)));
    let mask = vec4i(0xf, 0xf00, 0xf0000, 0xf000000);
    out[2u * j] = vec4f(codes & mask) * steps.low - steps.low_minimum;
    out[2u * j + 1u] = vec4f((codes >> vec4u(4u)) & mask) * steps.high - steps.high_minimum;
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_q4_k(EncodingTable& table) {
  table.add({.dtype = DType::q4_k,
             .name = "q4_k",
             .block_elements = kGroups * kGroup,
             .block_bytes = 144,
             .group_elements = kGroup,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
