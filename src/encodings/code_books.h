// The code books of GGUF's formats IQ1 to IQ3: an entry has the levels of eight elements in two bits each, or
// of four elements in four bits each, and two entries share a word.
#pragma once

#include <array>
#include <cstdint>
#include <format>
#include <span>
#include <string>

#include "encodings/block.h"

namespace rlx::code_books {

extern const std::array<uint32_t, 128> kIq2Xxs;
extern const std::array<uint32_t, 256> kIq2Xs;
extern const std::array<uint32_t, 512> kIq2S;
extern const std::array<uint32_t, 128> kIq3Xxs;
extern const std::array<uint32_t, 256> kIq3S;
extern const std::array<uint32_t, 1024> kIq1S;

inline unsigned entry(std::span<const uint32_t> book, unsigned i) {
  return (book[i / 2] >> (i % 2 * 16)) & 0xffffU;
}

// Level i of an entry of eight.
inline unsigned level_of_eight(unsigned entry, size_t i) { return (entry >> (2 * i)) & 3; }
// Level i of an entry of four.
inline unsigned level_of_four(unsigned entry, size_t i) { return (entry >> (4 * i)) & 15; }

// The values of the levels of IQ2.
inline constexpr std::array<float, 3> kIq2Levels = {8, 25, 43};

// Seven signs are stored, and the eighth makes the number of negative elements even.
inline unsigned eight_signs(unsigned seven) {
  unsigned parity = seven;
  parity ^= parity >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | (parity & 1) << 7;
}

inline float with_sign(float value, unsigned signs, size_t i) {
  return ((signs >> i) & 1) != 0 ? -value : value;
}

inline unsigned word_at(const std::byte* at) {
  uint32_t out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

inline unsigned u16_at(const std::byte* at) {
  uint16_t out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

// The book as x_entry(i), and
//   x_two_bits(entry, i)   four levels of an entry of eight, the first or the last four (i % 2)
//   x_levels(i)            all eight levels of entry i
//   x_four_bits(entry)     the four levels of an entry of four
//   x_signed(v, signs)     v, negative where one of the low four bits is set
//   x_eight_signs(seven)   see eight_signs
//   x_eighth_place(...)    the order of a lane's fours in x_eighth, if the format has one
inline std::string wgsl(std::span<const uint32_t> book) {
  std::string out = std::format("const x_BOOK = array<u32, {}>(", book.size());
  for (const uint32_t word : book) out += std::format("{}u,", word);
  return out + R"();
fn x_entry(i: u32) -> u32 { return (x_BOOK[i / 2u] >> (16u * (i % 2u))) & 0xffffu; }
fn x_two_bits(entry: u32, i: u32) -> vec4f {
  let bits = entry >> (8u * (i % 2u));
  return vec4f(vec4i((vec4u(bits) >> vec4u(0u, 2u, 4u, 6u)) & vec4u(3u)));
}
fn x_levels(i: u32) -> array<vec4f, 2> {
  // Each is converted where it stands.
  let bits = vec4i(bitcast<i32>(x_entry(i)));
  return array<vec4f, 2>(vec4f(bits & vec4i(0x3, 0xc, 0x30, 0xc0)) * vec4f(1.0, 0x1p-2, 0x1p-4, 0x1p-6),
                         vec4f(bits & vec4i(0x300, 0xc00, 0x3000, 0xc000)) * vec4f(0x1p-8, 0x1p-10, 0x1p-12, 0x1p-14));
}
fn x_four_bits(entry: u32) -> vec4f {
  return vec4f(vec4i(bitcast<i32>(entry)) & vec4i(0xf, 0xf0, 0xf00, 0xf000)) * vec4f(1.0, 0x1p-4, 0x1p-8, 0x1p-12);
}
fn x_signed(v: vec4f, signs: u32) -> vec4f {
  return select(v, -v, (vec4u(signs) & vec4u(1u, 2u, 4u, 8u)) != vec4u(0u));
}
fn x_eight_signs(seven: u32) -> u32 { return seven | ((countOneBits(seven) & 1u) << 7u); }
// A lane has 32 elements that follow one another; fours j and j + 4 are of the same eight, which share signs and scale.
const x_EIGHTH_UNIT: vec4f = vec4f(1.0);
fn x_eighth_place(j: u32, lane: u32) -> u32 { return 32u * lane + 8u * (j % 4u) + 4u * (j / 4u); }
// The values of the levels 0, 1 and 2 of IQ2: 8, 25 and 43.
fn x_iq2(levels: vec4f) -> vec4f { return 8.0 + levels * (16.5 + 0.5 * levels); }
)";
}

}  // namespace rlx::code_books
