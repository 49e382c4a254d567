// c64 as pairs of f32.
#pragma once

#include "ir/view.h"
#include "kernels/dispatch.h"

namespace rlx {

// The view of the f32 that a view of c64 consists of: a last axis of real and imaginary part.
View view_of_parts(View x);
// A c64 operand as f32 with that view; one of another type as it is.
Operand as_floats(const Operand& x);

}  // namespace rlx
