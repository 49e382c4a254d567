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
fn x_codes(at: u32, i: u32) -> vec4f {
  let nibbles = (x_word(at + 1u + i % 4u) >> (4u * (i / 4u))) & 0x0f0f0f0fu;
  let fifth = (((x_word(at) >> (4u * i)) & 15u) * 0x00204081u) & 0x01010101u;
  return vec4f(unpack4xI8(nibbles | (fifth << 4u)));
}
)";

}  // namespace rlx::five_bits
