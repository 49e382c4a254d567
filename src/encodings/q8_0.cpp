// GGUF's Q8_0: 32 elements in 34 bytes, an f16 scale and 32 signed bytes. Element = scale * byte.
#include "encodings/block.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

constexpr int kElements = 32;

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kElements; ++i) values[i] = scale * static_cast<float>(signed_byte_at(block + 2 + i));
}

void encode(const float* values, std::byte* block) {
  float largest = 0;
  for (int i = 0; i < kElements; ++i) largest = std::max(largest, std::abs(values[i]));
  const float scale = put_half(block, largest / 127);
  for (int i = 0; i < kElements; ++i) put_byte(block + 2 + i, quantum(values[i], scale, -127, 127));
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where the elements begin
}
fn x_group_at(i: u32) -> x_Group { return x_Group(x_half(i), x_block(i)); }
fn x_group_four(g: x_Group, i: u32) -> vec4f { return g.scale * vec4f(unpack4xI8(x_word(g.at + i))); }

// A lane has a block. Bytes are converted at the top of a word, where they have their sign.
const x_EIGHTH_FACTORS: u32 = 1u;
const x_EIGHTH_UNIT: vec4f = vec4f(0x1p-24);
fn x_eighth_place(j: u32, lane: u32) -> u32 { return 32u * lane + 4u * j; }
fn x_eighth_factors(i: u32, lane: u32) -> vec4f {
  let scales = unpack2x16float(x_eight(x_STRIDE * 4u * i, 2u * x_STRIDE, x_STRIDE, 0u, lane));
  return vec4f(select(scales.x, scales.y, lane % 2u == 1u));
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let at = x_STRIDE * 4u * i + 1u;  // of four pairs of blocks
  var out: array<vec4f, 8>;
  for (var j = 0u; j < 8u; j++) {
    let codes = x_eight(at + j, 2u * x_STRIDE, x_STRIDE, x_STRIDE / 2u, lane);
    let bytes = vec4u(codes << 24u, (codes << 16u) & 0xff000000u, (codes << 8u) & 0xff000000u, codes & 0xff000000u);
    out[j] = vec4f(bitcast<vec4i>(bytes));
  }
  return out;
}
)";

}  // namespace

namespace encodings {
void register_q8_0(EncodingTable& table) {
  table.add({.dtype = DType::q8_0,
             .name = "q8_0",
             .block_elements = kElements,
             .block_bytes = 34,
             .group_elements = kElements,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
