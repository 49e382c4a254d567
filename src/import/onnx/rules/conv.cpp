#include "base/checked.h"
#include "import/onnx/rules.h"

namespace rlx::onnx {
namespace {

// Zeros around x: all begins, then all ends.
std::vector<int64_t> padding(Call& c, const Shape& x, const std::vector<int64_t>& kernel,
                             const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations) {
  const size_t axes = kernel.size();
  const std::string how = c.text("auto_pad", "NOTSET");
  if (how == "NOTSET") return c.integers("pads", std::vector<int64_t>(2 * axes, 0));
  std::vector<int64_t> pads(2 * axes, 0);
  if (how == "VALID") return pads;
  if (how != "SAME_UPPER" && how != "SAME_LOWER") fail("its auto_pad is '{}'", excerpt(how));
  for (size_t i = 0; i < axes; ++i) {
    const Dim& size = x[static_cast<int64_t>(i) + 2];
    if (strides[i] < 1) fail("its stride on axis {} is {}", i + 2, strides[i]);
    const int64_t reach = checked_add(checked_mul(kernel[i] - 1, dilations[i]), 1);
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

void conv_rule(Call& c) {
  c.expect_inputs(2, 3);
  const Value x = c.in(0);
  const Value w = c.in(1);
  if (w.shape().rank() < 3) fail("its weight {} has no spatial axes", w.shape().text());
  const auto axes = static_cast<size_t>(w.shape().rank() - 2);
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < axes; ++i) kernel.push_back(w.shape()[static_cast<int64_t>(i) + 2].value());
  const std::vector<int64_t> ones(axes, 1);
  ConvOptions options{.strides = c.integers("strides", ones),
                      .dilations = c.integers("dilations", ones),
                      .groups = c.integer("group", 1)};
  if (options.strides.size() != axes || options.dilations.size() != axes)
    fail("it has {} strides and {} dilations for {} spatial axes", options.strides.size(),
         options.dilations.size(), axes);
  options.pads = padding(c, x.shape(), kernel, options.strides, options.dilations);
  c.out(conv(x, w, c.optional(2), options));
}

}  // namespace

namespace rules {
void register_conv(RuleTable& table) { table.add("Conv", conv_rule); }
}  // namespace rules

}  // namespace rlx::onnx
