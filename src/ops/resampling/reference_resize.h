// Resizing on the CPU, straight from ONNX's formulas. It shares nothing with resize_taps.cpp, which the
// device's kernels get their tables from: what is wrong there is found by comparing with this.
#pragma once

#include <vector>

#include "ir/reference.h"
#include "rlx/ops/resampling.h"

namespace rlx {

// `axes` are counted from the front.
void reference_resize(const ResizeOptions& options, const std::vector<int64_t>& axes, RefContext& r);

}  // namespace rlx
