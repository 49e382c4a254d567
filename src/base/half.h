// Bits of f16 and bf16 on the host, rounded to nearest even as IEEE 754 and PyTorch do.
#pragma once

#include <cstdint>

namespace rlx {

uint16_t f16_from_float(float value);
float float_from_f16(uint16_t bits);
uint16_t bf16_from_float(float value);
float float_from_bf16(uint16_t bits);

// From double in one rounding: going through float would round twice.
uint16_t f16_from_double(double value);
uint16_t bf16_from_double(double value);

}  // namespace rlx
