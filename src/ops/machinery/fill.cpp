#include "ops/machinery/fill.h"

#include <bit>

#include "kernels/fill.wgsl.h"

namespace rlx {

uint32_t value_bits(DType dtype, double value) {
  const Tensor one = Tensor::full(dtype, {1}, value);
  if (dtype == DType::c64) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (is_float(dtype)) return std::bit_cast<uint32_t>(static_cast<float>(one.real(0)));
  return static_cast<uint32_t>(one.integer(0));
}

void lower_fill(Lowering& l, const Operand& y, double value) {
  l.flat<kernels::fill>({.y = y}, {.value = value_bits(y.dtype, value)});
}

}  // namespace rlx
