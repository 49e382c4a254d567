// GGUF's NVFP4: 64 elements in 36 bytes: four scales, one for each group of 16, then 8 bytes for each group
// with nibbles of e2m1.h, the low ones for its first half. A scale has four bits of exponent and three of
// mantissa, no sign, and 127 is 0. Element = scale * value.
#include <string>

#include "encodings/e2m1.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

constexpr size_t kGroup = 16;
constexpr int kNone = 127;

// Half the scale, since the values are doubled.
float scale_of(int byte) {
  if (byte == kNone) return 0;
  const int exponent = (byte >> 3) & 15;
  const int mantissa = byte & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

void decode(const std::byte* block, float* values) {
  for (size_t i = 0; i < 64; ++i) {
    const int byte = byte_at(block + 4 + i / kGroup * 8 + i % 8);
    values[i] = scale_of(byte_at(block + i / kGroup)) * e2m1::doubled((byte >> (i / 8 % 2 * 4)) & 15);
  }
}

void encode(const float* values, std::byte* block) {
  for (size_t g = 0; g < 4; ++g) {
    const std::span<const float> group(values + g * kGroup, kGroup);
    int best = 0;
    float least = e2m1::squared_error(group, 0);
    for (int byte = 1; byte < kNone; ++byte) {
      const float error = e2m1::squared_error(group, scale_of(byte));
      if (error < least) {
        best = byte;
        least = error;
      }
    }
    put_byte(block + g, best);
    const float scale = scale_of(best);
    for (size_t i = 0; i < 8; ++i) {
      const int codes = e2m1::code_of(group[i], scale) | e2m1::code_of(group[i + 8], scale) << 4;
      put_byte(block + 4 + g * 8 + i, codes);
    }
  }
}

std::string_view wgsl() {
  static const std::string text = std::string(e2m1::kWgsl) + R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the nibbles begin
}
fn x_scale(byte: u32) -> f32 {
  let exponent = (byte >> 3u) & 15u;
  let mantissa = f32(i32(byte & 7u));
  // 2 ^ (exponent - 11) as its bits.
  let normal = (8.0 + mantissa) * bitcast<f32>((exponent + 116u) << 23u);
  let scale = select(normal, mantissa * 0.0009765625, exponent == 0u);
  return select(scale, 0.0, byte == 127u);
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 4u);
  let g = i % 4u;
  return x_Group(x_scale((x_word(block) >> (8u * g)) & 255u), block + 1u + 2u * g);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * x_doubled(x_word(g.at + i % 2u) >> (4u * (i / 2u)));
}

// A lane has two groups: fours take turns between them.
const x_EIGHTH_FACTORS: u32 = 4u;
const x_EIGHTH_UNIT: vec4f = vec4f(1.0);
fn x_eighth_place(j: u32, lane: u32) -> u32 {
  return 32u * lane + 16u * (j % 2u) + 8u * (j / 2u % 2u) + 4u * (j / 4u);
}
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let bytes = x_eight(x_block(4u * i), 2u * x_STRIDE, x_STRIDE, 0u, lane) >> (16u * (lane % 2u));
  let scales = vec2f(x_scale(bytes & 255u), x_scale((bytes >> 8u) & 255u));
  return scales.xyxy;
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let at = x_block(4u * i) + 1u;
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 2u; j++) {
    let first = x_eight(at + j, 2u * x_STRIDE, x_STRIDE, 4u, lane);
    let second = x_eight(at + 2u + j, 2u * x_STRIDE, x_STRIDE, 4u, lane);
    out[4u * j] = x_doubled(first);
    out[4u * j + 1u] = x_doubled(second);
    out[4u * j + 2u] = x_doubled(first >> 4u);
    out[4u * j + 3u] = x_doubled(second >> 4u);
  }
  return out;
}
)";
  return text;
}

}  // namespace

namespace encodings {
void register_nvfp4(EncodingTable& table) {
  table.add({.dtype = DType::nvfp4,
             .name = "nvfp4",
             .block_elements = 64,
             .block_bytes = 36,
             .group_elements = 16,
             .decode = decode,
             .encode = encode,
             .wgsl = wgsl()});
}
}  // namespace encodings

}  // namespace rlx
