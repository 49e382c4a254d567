#include "ops/windows.h"

#include "base/fail.h"

namespace rlx {

WindowSteps window_steps(const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations,
                         const std::vector<int64_t>& pads, size_t axis, size_t spatial) {
  const auto at = [](const std::vector<int64_t>& list, size_t i, int64_t otherwise) {
    return list.empty() ? otherwise : list[i];
  };
  return {at(strides, axis, 1), at(dilations, axis, 1), at(pads, axis, 0), at(pads, spatial + axis, 0)};
}

void check_window_lists(std::string_view op, const std::vector<int64_t>& strides,
                        const std::vector<int64_t>& dilations, const std::vector<int64_t>& pads,
                        int64_t spatial) {
  const auto check_list = [&](std::string_view name, const std::vector<int64_t>& list, int64_t wanted,
                              int64_t least) {
    if (!list.empty() && std::ssize(list) != wanted) {
      fail("{}: `{}` has {} numbers; for this rank of x it needs {}", op, name, list.size(), wanted);
    }
    for (const int64_t n : list) {
      if (n < least) fail("{}: `{}` contains {}; its numbers must be at least {}", op, name, n, least);
    }
  };
  check_list("strides", strides, spatial, 1);
  check_list("dilations", dilations, spatial, 1);
  check_list("pads", pads, 2 * spatial, 0);
}

Dim window_count(std::string_view op, const Dim& length, const Dim& kernel, const WindowSteps& a, size_t axis,
                 bool ceil) {
  const Dim padded = length + Dim(a.before) + Dim(a.after);
  const Dim covered = Dim(a.dilation) * (kernel - Dim(1)) + Dim(1);
  const Dim room = padded - covered;
  if (room.is_static() && room.value() < 0) {
    fail(
        "{}: the kernel does not fit along spatial axis {}: it covers {} elements (size {}, dilation {}), "
        "but there are {} ({}, padded by {} and {})",
        op, axis, covered.text(), kernel.text(), a.dilation, padded.text(), length.text(), a.before, a.after);
  }
  if (!ceil) return room.floor_div(a.stride) + Dim(1);
  return Dim::min(room.ceil_div(a.stride) + Dim(1), (length + Dim(a.before)).ceil_div(a.stride));
}

}  // namespace rlx
