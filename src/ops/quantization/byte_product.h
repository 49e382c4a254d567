// Products of bytes with zero points.
#pragma once

#include "ir/op.h"
#include "rlx/ops/convolution.h"
#include "rlx/value.h"

namespace rlx {

// The sum over k of (a - a_zero) (b - b_zero) in i32, for a [.., m, k] and b [.., k, n] of i8 or u8. The zero
// points are subtracted from the sums, so that weights stay bytes. They are empty or, as i32, broadcast to
// the result; where they differ along k, this is not for them.
Value byte_product(Value a, Value a_zero, Value b, Value b_zero);

// The convolution of x - x_zero with w - w_zero in i32, plus a bias in i32. Zero points are empty or one
// number of the type of x or w; what is outside of x adds nothing.
Value byte_conv(Value x, Value x_zero, Value w, Value w_zero, Value bias, const ConvOptions& options);

// That op for images with their channels last; null if it is no such convolution of images with channels
// first, or has an epilogue.
OpPtr byte_conv_channels_last(const Op& op);

}  // namespace rlx
