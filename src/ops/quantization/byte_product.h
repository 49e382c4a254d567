// Products of bytes with zero points.
#pragma once

#include "rlx/value.h"

namespace rlx {

// The sum over k of (a - a_zero) (b - b_zero) in i32, for a [.., m, k] and b [.., k, n] of i8 or u8. The zero
// points are subtracted from the sums, so that weights stay bytes. They are empty or, as i32, broadcast to
// the result; where they differ along k, this is not for them.
Value byte_product(Value a, Value a_zero, Value b, Value b_zero);

}  // namespace rlx
