// What rules of ops with windows over spatial axes share.
#pragma once

#include <vector>

#include "import/onnx/call.h"

namespace rlx::onnx {

// What `pads` or `auto_pad` puts around x: all begins, then all ends.
std::vector<int64_t> padding(const Call& c, const Shape& x, const std::vector<int64_t>& kernel,
                             const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations);

// The attributes of a convolution of x with the weight w.
ConvOptions conv_options(const Call& c, const Shape& x, const Shape& w);

}  // namespace rlx::onnx
