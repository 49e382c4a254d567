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
  static const std::string text = std::string(k_scales::kWgsl) + R"(
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

// A lane has four words of the nibbles, of half a pair of groups.
const x_EIGHTH_FACTORS: u32 = 0u;
const x_EIGHTH_UNIT: vec4f = vec4f(1.0);
fn x_eighth_factors(i: u32, lane: u32) -> vec4f { return vec4f(1.0); }
fn x_eighth_place(j: u32, lane: u32) -> u32 {
  return 64u * (lane / 2u) + 16u * (lane % 2u) + 32u * (j % 2u) + 4u * (j / 2u);
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  // The steps of both groups, side by side in two bytes.
  let shift = 8u * (lane & 2u);
  let a = x_word(block + 1u) >> shift;
  let b = x_word(block + 2u) >> shift;
  let c = x_word(block + 3u) >> shift;
  let late = lane >= 4u;
  let scales = select(a & 0x3f3fu, (c & 0x0f0fu) | ((a >> 2u) & 0x3030u), late);
  let minima = select(b & 0x3f3fu, ((c >> 4u) & 0x0f0fu) | ((b >> 2u) & 0x3030u), late);
  let d = unpack2x16float(x_word(block));
  let unit = vec4f(1.0, 0x1p-8, 0x1p-16, 0x1p-24);  // of a byte, where it stands
  let low_scale = d.x * f32(i32(scales & 255u)) * unit;
  let high_scale = d.x * f32(i32(scales >> 8u)) * unit;
  let low_minimum = d.y * f32(i32(minima & 255u));
  let high_minimum = d.y * f32(i32(minima >> 8u));
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 4u; j++) {
    let codes = vec4i(bitcast<i32>(x_eight(block + 4u + j, 16u, 8u, 4u, lane)));
    let mask = vec4i(0xf, 0xf00, 0xf0000, 0xf000000);
    out[2u * j] = vec4f(codes & mask) * low_scale - low_minimum;
    out[2u * j + 1u] = vec4f((codes >> vec4u(4u)) & mask) * high_scale - high_minimum;
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
