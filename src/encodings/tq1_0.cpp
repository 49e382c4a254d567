// GGUF's TQ1_0: 256 elements in 54 bytes: 52 bytes of five digits to the base 3 each, f16 scale. Element =
// scale * (digit - 1). A byte is the fraction 0.digits, times 256 and rounded up: multiplied by 3, it is the
// first digit and a byte with the rest. The first digits of bytes 0 to 31 stand before their second digits
// and so on, then those of bytes 32 to 47, then four digits of each of bytes 48 to 51.
#include <array>

#include "encodings/encoding.h"
#include "encodings/ternary.h"

namespace rlx {
namespace {

constexpr size_t kScale = 52;  // the byte where it is
constexpr std::array<int, 5> kPowers = {1, 3, 9, 27, 81};

struct Place {
  size_t byte;
  size_t digit;
};

Place place_of(size_t element) {
  if (element < 160) return {element % 32, element / 32};
  if (element < 240) return {32 + element % 16, (element - 160) / 16};
  return {48 + element % 4, (element - 240) / 4};
}

void decode(const std::byte* block, float* values) {
  const float scale = half_at(block + kScale);
  for (size_t i = 0; i < 256; ++i) {
    const Place p = place_of(i);
    const int rest = (byte_at(block + p.byte) * kPowers[p.digit]) & 255;
    values[i] = scale * static_cast<float>((rest * 3 >> 8) - 1);
  }
}

void encode(const float* values, std::byte* block) {
  const float scale = put_half(block + kScale, ternary::scale_of(std::span(values, 256)));
  std::array<int, kScale> numbers{};
  for (size_t i = 0; i < 256; ++i) {
    const Place p = place_of(i);
    numbers[p.byte] += (quantum(values[i], scale, -1, 1) + 1) * kPowers[4 - p.digit];
  }
  for (size_t i = 0; i < kScale; ++i) put_byte(block + i, (numbers[i] * 256 + 242) / 243);
}

constexpr std::string_view kWgsl = R"(
struct x_Group {
  scale: f32,
  at: u32,  // the word where its bytes begin
  digit: u32,
  last: u32,  // 1 for the last group, whose fours are the digits of one word
}
fn x_group_at(i: u32) -> x_Group {
  let block = x_block(i / 16u);
  let scale = x_half(i / 16u);
  let g = i % 16u;
  if (g < 10u) { return x_Group(scale, block + 4u * (g % 2u), g / 2u, 0u); }
  if (g < 15u) { return x_Group(scale, block + 8u, g - 10u, 0u); }
  return x_Group(scale, block + 12u, 0u, 1u);
}
fn x_group_four(g: x_Group, i: u32) -> vec4f {
  let digit = select(g.digit, i, g.last == 1u);
  // 3 ^ digit: 1, 3, 9, 27 are the bytes of a word.
  let power = select((0x1b090301u >> (8u * (digit % 4u))) & 255u, 81u, digit == 4u);
  let bytes = (vec4u(x_word(g.at + select(i, 0u, g.last == 1u))) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u);
  let rest = (bytes * power) & vec4u(255u);
  return g.scale * (vec4f(vec4i((rest * 3u) >> vec4u(8u))) - 1.0);
}

// A lane has the five fours of one of the first eight words, and three of the others, which are in the order of digits.
const x_EIGHTH_FACTORS: u32 = 1u;
const x_EIGHTH_UNIT: vec4f = vec4f(1.0, 0x1p-8, 0x1p-16, 0x1p-24);  // bytes are converted where they stand
fn x_eighth_place(j: u32, lane: u32) -> u32 { return select(160u + 4u * (3u * lane + j - 5u), 32u * j + 4u * lane, j < 5u); }
fn x_eighth_factors(i: u32, lane: u32) -> vec4f { return vec4f(x_half(i)); }
fn x_digits(bytes: u32, power: u32) -> vec4f {
  let even = (((((bytes & 0x00ff00ffu) * power) & 0x00ff00ffu) * 3u) >> 8u) & 0x00030003u;
  let odd = (((((bytes >> 8u) & 0x00ff00ffu) * power) & 0x00ff00ffu) * 3u) & 0x03000300u;
  let digits = vec4i(bitcast<i32>(even | odd)) & vec4i(0x3, 0x300, 0x30000, 0x3000000);
  return vec4f(digits) - vec4f(1.0, 0x1p8, 0x1p16, 0x1p24);
}
fn x_eighth(i: u32, lane: u32) -> array<vec4f, 8> {
  let block = x_block(i);
  let own = x_word(block + lane);
  var out: array<vec4f, 8>;
  out[0] = x_digits(own, 1u);
  out[1] = x_digits(own, 3u);
  out[2] = x_digits(own, 9u);
  out[3] = x_digits(own, 27u);
  out[4] = x_digits(own, 81u);
  for (var j = 0u; j < 3u; j++) {
    let four = 3u * lane + j;
    let last = four >= 20u;  // the digits of the last word
    let digit = select(four / 4u, four - 20u, last);
    let power = select((0x1b090301u >> (8u * (digit % 4u))) & 255u, 81u, digit == 4u);
    out[j + 5u] = x_digits(x_word(block + select(8u + four % 4u, 12u, last)), power);
  }
  return out;
}
)";

}  // namespace

namespace encodings {
void register_tq1_0(EncodingTable& table) {
  table.add({.dtype = DType::tq1_0,
             .name = "tq1_0",
             .block_elements = 256,
             .block_bytes = 54,
             .apart = kScale,
             .group_elements = 16,
             .decode = decode,
             .encode = encode,
             .wgsl = kWgsl});
}
}  // namespace encodings

}  // namespace rlx
