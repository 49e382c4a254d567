// What rules of quantised ops share.
#pragma once

#include "import/onnx/call.h"

namespace rlx::onnx {

Value as_f32(Value v);

// x / scale + zero as the type, as QuantizeLinear has it; `zero` may be empty.
Value quantized(Call& c, Value x, Value scale, Value zero, ElementType to, int64_t axis = 0,
                int64_t block = 0);

// An input that is a zero point; empty if it is not given, or known to be 0.
Value zero_point(Call& c, int64_t input);

// The sum over k of (a - a_zero) (b - b_zero) in i32. `a_zero` is empty, one number or one for each row,
// `b_zero` empty, one number or one for each column.
Value integer_product(Value a, Value a_zero, Value b, Value b_zero);

// Bytes that hold several codes of so many bits along the last axis, the first in the lowest bits, one by one
// as u8.
Value unpacked(Value bytes, int64_t bits);

}  // namespace rlx::onnx
