// The generator of random numbers, as kernels/lib/math/random.wgsl has it.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace rlx {

using Words = std::array<uint32_t, 2>;

// Threefry-2x32 with 20 rounds.
constexpr Words threefry(Words key, Words counter) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bdaU};
  Words x = {counter[0] + key[0], counter[1] + key[1]};
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int by : kRotations[group % 2]) {
      x[0] += x[1];
      x[1] = std::rotl(x[1], by) ^ x[0];
    }
    x[0] += keys[(group + 1) % 3];
    x[1] += keys[(group + 2) % 3] + group + 1;
  }
  return x;
}

// -ln((word + 1/2) / 2^32).
inline double exponential_of(uint32_t word) {
  if (word >= 0x80000000U) return -std::log1p(-(static_cast<double>(~word) + 0.5) * 0x1p-32);
  return -std::log((static_cast<double>(word) + 0.5) * 0x1p-32);
}

inline double gumbel_of(uint32_t word) { return -std::log(exponential_of(word)); }

inline double normal_of(Words words) {
  constexpr double kPi = 3.14159265358979323846;
  return std::sqrt(2 * exponential_of(words[0])) *
         std::cos(2 * kPi * static_cast<double>(words[1]) * 0x1p-32);
}

}  // namespace rlx
