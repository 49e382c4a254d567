// What ops with windows over spatial axes share: convolutions and pools.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rlx/shape.h"

namespace rlx {

// How windows lie along one spatial axis.
struct WindowSteps {
  int64_t stride = 1, dilation = 1, before = 0, after = 0;  // before and after: the padding
};

// The lists have a number for each spatial axis, `pads` all begins and then all ends; an empty list means 1
// (pads: 0) everywhere.
WindowSteps window_steps(const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations,
                         const std::vector<int64_t>& pads, size_t axis, size_t spatial);
void check_window_lists(std::string_view op, const std::vector<int64_t>& strides,
                        const std::vector<int64_t>& dilations, const std::vector<int64_t>& pads,
                        int64_t spatial);

// How many windows there are along an axis of that length. With `ceil` also a last one that ends outside the
// padding, if it begins neither there nor in the padding behind the axis.
Dim window_count(std::string_view op, const Dim& length, const Dim& kernel, const WindowSteps& a, size_t axis,
                 bool ceil = false);

}  // namespace rlx
