// What rules of ops with windows over spatial axes share.
#pragma once

#include <vector>

#include "import/onnx/call.h"
#include "rlx/ops/convolution.h"

namespace rlx::onnx {

// The attributes `strides` and `dilations`, all 1 if they are not given; an error if they do not fit the
// kernel.
struct Steps {
  std::vector<int64_t> strides, dilations;
};
Steps steps_of(const Call& c, const std::vector<int64_t>& kernel);

// What `pads` or `auto_pad` puts around x: all begins, then all ends.
std::vector<int64_t> padding(const Call& c, const Shape& x, const std::vector<int64_t>& kernel,
                             const Steps& steps);

// The attributes of a convolution of x with the weight w.
ConvOptions conv_options(const Call& c, const Shape& x, const Shape& w);

}  // namespace rlx::onnx
