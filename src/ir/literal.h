// Numbers in place of tensors, in texts and in C++.
#pragma once

#include "rlx/tensor.h"

namespace rlx {

// An error if the type cannot hold the number: integers and bool hold it exactly or not at all; floats round,
// but a finite number must not become infinite.
void expect_fits(DType dtype, double number);
void expect_fits(DType dtype, int64_t number);

// A scalar of that type; an error as above.
Tensor literal(DType dtype, double number);
Tensor literal(DType dtype, int64_t number);

}  // namespace rlx
