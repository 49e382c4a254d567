// What the rest of the code knows about element types besides rlx/dtype.h.
#pragma once

#include "rlx/dtype.h"
#include "rlx/shape.h"

namespace rlx {

size_t device_bytes(DType type);  // of one element in device memory; not for encoded types
// Of a number of elements in device memory, whole blocks if the type is encoded.
int64_t device_bytes_of(DType type, int64_t elements);
// How many elements these bytes hold, whole blocks if the type is encoded.
int64_t host_elements_in(DType type, int64_t bytes);
int64_t device_elements_in(DType type, int64_t bytes);
// An error if a tensor of this shape cannot be stored in whole blocks along its last axis.
void expect_whole_blocks(DType type, const Shape& shape);
// The distance between 1 and the next number of a float type, the unit in which tolerances are stated.
double epsilon(DType type);

}  // namespace rlx
