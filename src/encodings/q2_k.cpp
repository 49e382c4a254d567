// GGUF's Q2_K: 256 elements in 84 bytes: 16 bytes with a scale (low nibble) and a minimum (high nibble) each,
// 64 bytes of codes of two bits, f16 d, f16 dmin. Sixteen groups of 16; element = d * scale * code - dmin *
// minimum. Each half of the elements has 32 bytes of codes: the bits 0 and 1 of all of them, then 2 and 3,
// ...
#include <array>

#include "encodings/encoding.h"
#include "encodings/fit.h"

namespace rlx {
namespace {

constexpr size_t kGroups = 16;
constexpr size_t kGroup = 16;
constexpr size_t kCodes = 16;  // the byte where they begin
constexpr size_t kD = 80;

constexpr size_t byte_of(size_t element) { return kCodes + element / 128 * 32 + element % 32; }
constexpr size_t shift_of(size_t element) { return element / 32 % 4 * 2; }

void decode(const std::byte* block, float* values) {
  const float d = half_at(block + kD);
  const float dmin = half_at(block + kD + 2);
  for (size_t i = 0; i < kGroups * kGroup; ++i) {
    const int steps = byte_at(block + i / kGroup);
    const int code = (byte_at(block + byte_of(i)) >> shift_of(i)) & 3;
    values[i] =
        d * static_cast<float>(steps & 15) * static_cast<float>(code) - dmin * static_cast<float>(steps >> 4);
  }
}

void encode(const float* values, std::byte* block) {
  std::array<float, kGroups> steps{};
  std::array<float, kGroups> lows{};  // how far the group reaches below 0
  for (size_t g = 0; g < kGroups; ++g) {
    const Fit fit = fit_range(std::span(values + g * kGroup, kGroup), 3, true);
    steps[g] = fit.step;
    lows[g] = std::max(0.0F, -fit.low);
  }
  std::fill_n(block + kCodes, kD - kCodes, std::byte{0});
  const float d = put_half(block + kD, *std::ranges::max_element(steps) / 15);
  const float dmin = put_half(block + kD + 2, *std::ranges::max_element(lows) / 15);
  for (size_t g = 0; g < kGroups; ++g) {
    const int scale = quantum(steps[g], d, 0, 15);
    const int minimum = quantum(lows[g], dmin, 0, 15);
    put_byte(block + g, scale | minimum << 4);
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      const int code =
          quantum(values[i] + dmin * static_cast<float>(minimum), d * static_cast<float>(scale), 0, 3);
      block[byte_of(i)] |= static_cast<std::byte>(code << shift_of(i));
    }
  }
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  minimum: f32,
  at: u32,  // the word where the bytes of its codes begin
  shift: u32,  // to its codes
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let g = i % 16u;
  let steps = x_word(block + g / 4u) >> (8u * (g % 4u));
  let d = unpack2x16float(x_word(block + 20u));
  return x_Group(d.x * f32(i32(steps & 15u)), d.y * f32(i32((steps >> 4u) & 15u)),
                 block + 4u + 8u * (g / 8u) + 4u * (g % 2u), 2u * (g % 8u / 2u));
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  return g.scale * vec4f(unpack4xI8((x_word(g.at + i) >> g.shift) & 0x03030303u)) - g.minimum;
}
)";

}  // namespace

namespace encodings {
void register_q2_k(EncodingTable& table) {
  table.add({.dtype = DType::q2_k,
             .name = "q2_k",
             .block_elements = kGroups * kGroup,
             .block_bytes = 84,
             .group_elements = kGroup,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
