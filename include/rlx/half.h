// 16-bit floats on the host: storage and conversions, but no arithmetic (they convert to float).
#pragma once

#include <cstdint>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

// IEEE 754 half precision: 5 bits of exponent, 10 of mantissa.
struct f16 {
  f16() = default;
  f16(float value);  // to nearest even; infinity beyond 65504
  operator float() const;
  static f16 from_bits(uint16_t bits) {
    f16 h;
    h.bits = bits;
    return h;
  }

  uint16_t bits = 0;
};

// The upper half of an f32: 8 bits of exponent, 7 of mantissa.
struct bf16 {
  bf16() = default;
  bf16(float value);  // to nearest even
  operator float() const;
  static bf16 from_bits(uint16_t bits) {
    bf16 b;
    b.bits = bits;
    return b;
  }

  uint16_t bits = 0;
};

}  // namespace rlx
RLX_EXPORT_END
