// Whether a device's result is as near to the double reference as its op promises.
#pragma once

#include "ir/op.h"

namespace rlx {

struct Closeness {
  bool close = false;
  double allowed = 0;  // the largest error that would have been accepted
};

// |got - want| <= eps32 * (ulps + 4*sqrt(terms)) * max(|want|, scale) + eps(type)*|want| (one rounding, if
// the type is f16 or bf16) + the smallest f16, or for other types the smallest normal f32. NaN matches NaN,
// infinities match themselves. Values too large for the type match its infinity.
Closeness compare(double got, double want, DType dtype, const Tolerance& tolerance);

// |got - want|, 0 for two NaN or the same infinity, and infinity where only one of the two is a finite
// number: never NaN, so that std::max finds the largest of several.
double difference(double got, double want);

}  // namespace rlx
