// Half floats against arithmetic in double: every number, every midpoint between two, and what lies beside
// it.
#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "rlx/half.h"

namespace rlx {
namespace {

struct Format {
  const char* name;
  int bits;      // of the significand, with the hidden one
  int smallest;  // the exponent of the smallest normal number
  int infinity;  // the bits of infinity, which follow those of the largest number
  float (*decode)(uint16_t);
  uint16_t (*from_float)(float);
  uint16_t (*from_double)(double);
};

const Format kFormats[] = {
    {"f16", 11, -14, 0x7c00, float_from_f16, f16_from_float, f16_from_double},
    {"bf16", 8, -126, 0x7f80, float_from_bf16, bf16_from_float, bf16_from_double},
};

// By the definition of the format, from its fields.
double value_of(const Format& f, int bits) {
  const int fraction_bits = f.bits - 1;
  const int exponent = bits >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int scale = f.smallest - fraction_bits;
  return exponent == 0 ? std::ldexp(fraction, scale)
                       : std::ldexp(fraction + (1 << fraction_bits), scale + exponent - 1);
}

TEST(Half, EveryNumberIsWhatItsFieldsSay) {
  for (const Format& f : kFormats) {
    for (int bits = 0; bits < f.infinity; ++bits) {
      for (const int sign : {0, 0x8000}) {
        const auto all = static_cast<uint16_t>(bits | sign);
        const double want = sign ? -value_of(f, bits) : value_of(f, bits);
        ASSERT_EQ(f.decode(all), want) << f.name << " " << all;
        ASSERT_EQ(std::signbit(f.decode(all)), sign != 0) << f.name << " " << all;
        ASSERT_EQ(f.from_float(f.decode(all)), all) << f.name;
        ASSERT_EQ(f.from_double(want), all) << f.name;
      }
    }
  }
}

// The midpoint goes to the even neighbour, and what is a little larger or smaller to the nearer one. A double
// next to the midpoint is the midpoint itself once it is a float: it must not be rounded twice.
TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (const Format& f : kFormats) {
    for (int bits = 0; bits < f.infinity; ++bits) {
      // Beyond the largest number lies the one that would follow it.
      const double low = value_of(f, bits);
      const double high = value_of(f, bits + 1);
      const double middle = (low + high) / 2;
      const int even = bits % 2 == 0 ? bits : bits + 1;
      for (const double sign : {1.0, -1.0}) {
        const auto with_sign = [&](int b) { return static_cast<uint16_t>(sign < 0 ? b | 0x8000 : b); };
        ASSERT_EQ(f.from_double(sign * middle), with_sign(even)) << f.name << " " << middle;
        ASSERT_EQ(f.from_double(sign * std::nextafter(middle, low)), with_sign(bits))
            << f.name << " " << middle;
        ASSERT_EQ(f.from_double(sign * std::nextafter(middle, 2 * high)), with_sign(bits + 1))
            << f.name << " " << middle;
        const auto single = static_cast<float>(middle);
        if (single != middle) continue;  // between the smallest of bf16 no float is in the middle
        const float infinity = std::numeric_limits<float>::infinity();
        const auto s = static_cast<float>(sign);
        ASSERT_EQ(f.from_float(s * single), with_sign(even)) << f.name << " " << middle;
        ASSERT_EQ(f.from_float(s * std::nextafter(single, 0.0f)), with_sign(bits)) << f.name << " " << middle;
        ASSERT_EQ(f.from_float(s * std::nextafter(single, infinity)), with_sign(bits + 1))
            << f.name << " " << middle;
      }
    }
  }
}

TEST(Half, WhatIsNoNumberStaysNone) {
  for (const Format& f : kFormats) {
    const auto infinity = static_cast<uint16_t>(f.infinity);
    const double inf = std::numeric_limits<double>::infinity();
    EXPECT_EQ(f.from_double(inf), infinity) << f.name;
    EXPECT_EQ(f.from_double(-inf), infinity | 0x8000) << f.name;
    EXPECT_EQ(f.from_double(1e300), infinity) << f.name;
    EXPECT_EQ(f.decode(infinity), inf) << f.name;
    for (int bits = f.infinity + 1; bits < 0x8000; ++bits)
      ASSERT_TRUE(std::isnan(f.decode(static_cast<uint16_t>(bits)))) << f.name << " " << bits;
    for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0xffffffffu}) {
      const uint16_t made = f.from_float(std::bit_cast<float>(bits));
      EXPECT_TRUE(std::isnan(f.decode(made))) << f.name << " " << bits;
      EXPECT_EQ(made >> 15, bits >> 31) << f.name << " " << bits;
    }
    EXPECT_TRUE(std::isnan(f.decode(f.from_double(std::nan(""))))) << f.name;
  }
}

}  // namespace
}  // namespace rlx
