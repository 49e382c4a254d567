// Convolutions and their relatives.
#include "base/checked.h"
#include "import/onnx/rules.h"
#include "import/onnx/windows.h"
#include "rlx/ops/convolution.h"

namespace rlx::onnx {
namespace {

// The spatial sizes of a weight.
std::vector<int64_t> kernel_of(const Shape& w) {
  if (w.rank() < 3) fail("its weight {} has no spatial axes", w.text());
  std::vector<int64_t> kernel;
  for (int64_t i = 2; i < w.rank(); ++i) kernel.push_back(w[i].value());
  return kernel;
}

}  // namespace

ConvOptions conv_options(const Call& c, const Shape& x, const Shape& w) {
  c.ignores("kernel_shape");  // that of the weight
  const std::vector<int64_t> kernel = kernel_of(w);
  const Steps steps = steps_of(c, kernel);
  return {.strides = steps.strides,
          .dilations = steps.dilations,
          .pads = padding(c, x, kernel, steps),
          .groups = c.integer("group", 1)};
}

namespace {

void conv_rule(Call& c) {
  c.expect_inputs(2, 3);
  const Value x = c.in(0);
  const Value w = c.in(1);
  c.out(conv(x, w, c.optional(2), conv_options(c, x.shape(), w.shape())));
}

// Padding that makes the result as large as `output_shape` says or, with auto_pad, a multiple of x.
void fit_output(Call& c, const Shape& x, const std::vector<int64_t>& kernel, ConvTransposeOptions& options) {
  const std::string how = c.text("auto_pad", "NOTSET");
  if (how != "NOTSET" && how != "VALID" && how != "SAME_UPPER" && how != "SAME_LOWER")
    fail("its auto_pad is '{}'", excerpt(how));
  const size_t axes = kernel.size();
  std::vector<int64_t> shape = c.integers("output_shape");
  if (shape.empty() && !how.starts_with("SAME")) {
    if (how == "NOTSET") options.pads = c.integers("pads", std::vector<int64_t>(2 * axes, 0));
    return;
  }
  if (shape.size() > axes) shape.erase(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(axes));
  if (!shape.empty() && shape.size() != axes)
    fail("it has {} output sizes for {} spatial axes", shape.size(), axes);
  options.pads.assign(2 * axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    const Dim& size = x[static_cast<int64_t>(i) + 2];
    const int64_t stride = options.strides[i];
    const Dim wanted = shape.empty() ? size * Dim(stride) : Dim(shape[i]);
    const int64_t reach = checked_add(checked_mul(kernel[i] - 1, options.dilations[i]), 1);
    const Dim all = (size - Dim(1)) * Dim(stride) + Dim(reach) + Dim(options.output_padding[i]) - wanted;
    if (!all.is_static()) {
      c.refuse(Refusal::other, "its padding depends on the size {}, which is known only when it runs",
               size.text());
    }
    const int64_t cut = std::max<int64_t>(all.value(), 0);
    options.pads[i] = how == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
    options.pads[i + axes] = cut - options.pads[i];
    if (all.value() < 0)
      options.output_padding[i] = checked_add(options.output_padding[i], checked_mul(all.value(), -1));
  }
}

void conv_transpose_rule(Call& c) {
  c.expect_inputs(2, 3);
  c.ignores("kernel_shape pads");  // the weight has the first, and an output shape may give the second
  const Value x = c.in(0);
  const Value w = c.in(1);
  const std::vector<int64_t> kernel = kernel_of(w.shape());
  const size_t axes = kernel.size();
  const Steps steps = steps_of(c, kernel);
  ConvTransposeOptions options{.strides = steps.strides,
                               .dilations = steps.dilations,
                               .output_padding = c.integers("output_padding", std::vector<int64_t>(axes, 0)),
                               .groups = c.integer("group", 1)};
  if (options.output_padding.size() != axes)
    fail("it has {} numbers of output padding for {} spatial axes", options.output_padding.size(), axes);
  fit_output(c, x.shape(), kernel, options);
  c.out(conv_transpose(x, w, c.optional(2), options));
}

void deform_conv_rule(Call& c) {
  c.expect_inputs(3, 5);
  c.ignores("kernel_shape");
  c.out(deform_conv(c.in(0), c.in(1), c.in(2), c.optional(3), c.optional(4),
                    {.strides = c.integers("strides"),
                     .dilations = c.integers("dilations"),
                     .pads = c.integers("pads"),
                     .groups = c.integer("group", 1),
                     .offset_groups = c.integer("offset_group", 1)}));
}

void col2im_rule(Call& c) {
  c.expect_inputs(3, 3);
  c.out(col2im(
      c.in(0), c.numbers(1, "the size of the image"), c.numbers(2, "the size of the kernel"),
      {.strides = c.integers("strides"), .dilations = c.integers("dilations"), .pads = c.integers("pads")}));
}

}  // namespace

namespace rules {
void register_conv(RuleTable& table) {
  table.add("Conv", conv_rule);
  table.add("ConvTranspose", conv_transpose_rule);
  table.add("DeformConv", deform_conv_rule);
  table.add("Col2Im", col2im_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
