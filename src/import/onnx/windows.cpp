#include "import/onnx/windows.h"

#include <algorithm>

#include "base/checked.h"

namespace rlx::onnx {

Steps steps_of(const Call& c, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  const std::vector<int64_t> ones(axes, 1);
  Steps s{c.integers("strides", ones), c.integers("dilations", ones)};
  if (s.strides.size() != axes || s.dilations.size() != axes)
    fail("it has {} strides and {} dilations for {} spatial axes", s.strides.size(), s.dilations.size(),
         axes);
  return s;
}

std::vector<int64_t> padding(const Call& c, const Shape& x, const std::vector<int64_t>& kernel,
                             const Steps& steps) {
  const auto& [strides, dilations] = steps;
  const size_t axes = kernel.size();
  const std::string how = c.text("auto_pad", "NOTSET");
  std::vector<int64_t> pads(2 * axes, 0);
  std::vector<int64_t> given = c.integers("pads", pads);
  if (how == "NOTSET") return given;
  if (how == "VALID") return pads;
  if (how != "SAME_UPPER" && how != "SAME_LOWER") fail("its auto_pad is '{}'", excerpt(how));
  for (size_t i = 0; i < axes; ++i) {
    const Dim& size = x[static_cast<int64_t>(i) + 2];
    if (strides[i] < 1) fail("its stride on axis {} is {}", i + 2, strides[i]);
    const int64_t reach = checked_add(checked_mul(checked_add(kernel[i], -1), dilations[i]), 1);
    int64_t all = checked_add(reach, -strides[i]);  // for any size that is a multiple of the stride
    if (size.is_static()) {
      const int64_t over = size.value() % strides[i];  // of the last step, which may reach beyond the end
      all = checked_add(reach, over == 0 ? -strides[i] : -over);
    } else if (strides[i] != 1) {
      c.refuse(Refusal::other, "its padding depends on the size {}, which is known only when it runs",
               size.text());
    }
    all = std::max<int64_t>(all, 0);
    pads[i] = how == "SAME_UPPER" ? all / 2 : all - all / 2;
    pads[i + axes] = all - pads[i];
  }
  return pads;
}

}  // namespace rlx::onnx
