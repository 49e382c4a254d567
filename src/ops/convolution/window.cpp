#include "ops/convolution/window.h"

#include "base/fail.h"

namespace rlx {

void WindowLists::visit_lists(AttributeVisitor& v) {
  v("strides", strides, {});
  v("dilations", dilations, {});
  v("pads", pads, {});
}

Window WindowLists::window(size_t axis, size_t spatial) const {
  const auto number = [](const std::vector<int64_t>& list, size_t i, int64_t otherwise) {
    return list.empty() ? otherwise : list[i];
  };
  return {number(strides, axis, 1), number(dilations, axis, 1), number(pads, axis, 0),
          number(pads, spatial + axis, 0)};
}

void check_list(std::string_view op, std::string_view name, const std::vector<int64_t>& list, int64_t wanted,
                int64_t least) {
  if (!list.empty() && std::ssize(list) != wanted) {
    fail("{}: `{}` has {} numbers; for this rank of x it needs {}", op, name, list.size(), wanted);
  }
  for (const int64_t n : list) {
    if (n < least) fail("{}: `{}` contains {}; its numbers must be at least {}", op, name, n, least);
  }
}

void WindowLists::check_lists(std::string_view op, int64_t spatial) const {
  check_list(op, "strides", strides, spatial, 1);
  check_list(op, "dilations", dilations, spatial, 1);
  check_list(op, "pads", pads, 2 * spatial, 0);
}

Dim window_count(std::string_view op, const Dim& length, const Dim& kernel, const Window& window, size_t axis,
                 bool ceil) {
  const Dim padded = length + Dim(window.before) + Dim(window.after);
  const Dim covered = Dim(window.dilation) * (kernel - Dim(1)) + Dim(1);
  const Dim room = padded - covered;
  if (room.is_static() && room.value() < 0) {
    fail(
        "{}: the kernel does not fit along spatial axis {}: it covers {} elements (size {}, dilation {}), "
        "but there are {} ({}, padded by {} and {})",
        op, axis, covered.text(), kernel.text(), window.dilation, padded.text(), length.text(), window.before,
        window.after);
  }
  if (!ceil) return room.floor_div(window.stride) + Dim(1);
  return Dim::min(room.ceil_div(window.stride) + Dim(1),
                  (length + Dim(window.before)).ceil_div(window.stride));
}

}  // namespace rlx
