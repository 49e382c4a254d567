// What GGUF's Q5_0 and Q5_1 share: codes of five bits, a word whose bit i is the fifth bit of element i and
// 16 bytes, whose low nibbles belong to elements 0 to 15 and whose high nibbles to elements 16 to 31.
#pragma once

#include <string_view>

#include "encodings/block.h"

namespace rlx::five_bits {

inline constexpr size_t kElements = 32;
inline constexpr size_t kBytes = 20;

inline int code_at(const std::byte* codes, size_t i) {
  const int nibble = (byte_at(codes + 4 + i % 16) >> (i / 16 * 4)) & 15;
  return nibble | ((byte_at(codes + i / 8) >> (i % 8)) & 1) << 4;
}

// Into bytes that are zero.
inline void put_code(std::byte* codes, size_t i, int code) {
  codes[4 + i % 16] |= static_cast<std::byte>((code & 15) << (i / 16 * 4));
  codes[i / 8] |= static_cast<std::byte>((code >> 4) << (i % 8));
}

// x_codes(at, i): codes 4i to 4i+3 of the block whose codes begin at this word. The product puts four bits
// that are neighbours into four bytes.
inline constexpr std::string_view kWgsl = R"(
// Codes 4j to 4j+3 as bytes, from the word of fifth bits and word j % 4 of the nibbles.
fn x_code_bytes(fifths: u32, nibbles: u32, j: u32) -> u32 {
  let fifth = (((fifths >> (4u * j)) & 15u) * 0x00204081u) & 0x01010101u;
  return ((nibbles >> (4u * (j / 4u))) & 0x0f0f0f0fu) | (fifth << 4u);
}
fn x_codes(at: u32, i: u32) -> vec4f {
  return vec4f(unpack4xI8(x_code_bytes(x_word(at), x_word(at + 1u + i % 4u), i)));
}
)";

// For x_eighth: a lane has a block. x_bytes has codes that are still to be multiplied by x_EIGHTH_UNIT: they
// are converted where they stand in a word.
inline constexpr std::string_view kEighthsWgsl = R"(
const x_EIGHTH_UNIT: vec4f = vec4f(1.0, 0x1p-8, 0x1p-16, 0x1p-24);
fn x_eighth_place(j: u32, lane: u32) -> u32 { return 32u * lane + 4u * j; }
fn x_bytes(fifths: u32, nibbles: u32, j: u32) -> vec4f {
  let codes = vec4i(bitcast<i32>(x_code_bytes(fifths, nibbles, j)));
  return vec4f(codes & vec4i(0x1f, 0x1f00, 0x1f0000, 0x1f000000));
}
)";

}  // namespace rlx::five_bits
