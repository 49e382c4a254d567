// Windows that step over spatial axes: what convolutions and pools have in common.
#pragma once

#include <string_view>
#include <vector>

#include "ir/op.h"
#include "rlx/shape.h"

namespace rlx {

// Along one spatial axis.
struct Window {
  int64_t stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // zeros around x
};

// The attributes of ops with such windows.
struct WindowLists {
  std::vector<int64_t> strides, dilations;  // one for each spatial axis; empty: all 1
  std::vector<int64_t> pads;                // all begins, then all ends; empty: all 0

  void visit_lists(AttributeVisitor& v);
  // Errors if they do not fit that number of axes; `op` begins the message.
  void check_lists(std::string_view op, int64_t spatial) const;
  Window window(size_t axis, size_t spatial) const;
};

// Errors if a list has the wrong length or a number below `least`; `op` begins the message.
void check_list(std::string_view op, std::string_view name, const std::vector<int64_t>& list, int64_t wanted,
                int64_t least);

// How many windows an axis has; an error if not even one fits. With `ceil` also a last one that ends outside
// the padding, if it begins neither there nor in the padding behind the axis.
Dim window_count(std::string_view op, const Dim& length, const Dim& kernel, const Window& window, size_t axis,
                 bool ceil = false);

}  // namespace rlx
