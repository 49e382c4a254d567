// Pools, global pools, which are reductions over the spatial axes, and what belongs to pools: MaxUnpool,
// RoiAlign.
#include "import/onnx/rules.h"
#include "import/onnx/windows.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

struct Windows {
  std::vector<int64_t> kernel;
  PoolOptions options;
};

Windows windows_of(Call& c) {
  c.expect_inputs(1, 1);
  const Shape x = c.shape(0);
  if (x.rank() < 3) fail("its input {} has no spatial axes", x.text());
  const auto axes = static_cast<size_t>(x.rank() - 2);
  const std::vector<int64_t> kernel = c.integers("kernel_shape");
  if (kernel.size() != axes) fail("it has {} kernel sizes for {} spatial axes", kernel.size(), axes);
  const Steps steps = steps_of(c, kernel);
  std::vector<int64_t> pads = padding(c, x, kernel, steps);
  // ONNX's shape inference divides as C does: a kernel that is longer than its axis, by less than a stride,
  // has one window there, which holds what there is.
  for (size_t i = 0; i < axes && !c.flag("count_include_pad", false); ++i) {
    const Dim& length = x[static_cast<int64_t>(i) + 2];
    if (!length.is_static()) continue;
    const int64_t covered = steps.dilations[i] * (kernel[i] - 1) + 1;
    const int64_t missing = covered - (length.value() + pads[i] + pads[axes + i]);
    if (missing > 0 && missing < steps.strides[i]) pads[axes + i] += missing;
  }
  return {kernel,
          {.strides = steps.strides,
           .dilations = steps.dilations,
           .pads = std::move(pads),
           .ceil_mode = c.flag("ceil_mode", false)}};
}

void max_pool_rule(Call& c) {
  const Windows w = windows_of(c);
  c.ignores("storage_order");  // of indices
  if (!c.wants(1)) return c.out(max_pool(c.in(0), w.kernel, w.options));
  const auto [y, indices] = max_pool_with_indices(c.in(0), w.kernel, w.options, PoolIndices::tensor,
                                                  c.flag("storage_order", false));
  c.out(y);
  c.out(1, indices, ElementType::int64);
}

void average_pool_rule(Call& c) {
  const Windows w = windows_of(c);
  c.out(avg_pool(c.in(0), w.kernel, w.options, c.flag("count_include_pad", false)));
}

void lp_pool_rule(Call& c) {
  const Windows w = windows_of(c);
  c.out(lp_pool(c.in(0), w.kernel, static_cast<double>(c.integer("p", 2)), w.options));
}

std::vector<int64_t> spatial_axes(Call& c) {
  c.expect_inputs(1, 1);
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < c.rank(0); ++i) axes.push_back(i);
  if (axes.empty()) fail("its input {} has no spatial axes", c.shape(0).text());
  return axes;
}

void global_average_rule(Call& c) { c.out(mean(c.in(0), spatial_axes(c), true)); }
void global_max_rule(Call& c) { c.out(max(c.in(0), spatial_axes(c), true)); }
void global_lp_rule(Call& c) {
  const auto p = static_cast<double>(c.integer("p", 2));
  const Value x = c.in(0);
  const Value magnitude = abs(x.dtype() == DType::f32 ? x : cast(x, DType::f32));
  const Value all = sum(p == 1   ? magnitude
                        : p == 2 ? square(magnitude)
                                 : pow(magnitude, p),
                        spatial_axes(c), true);
  const Value y = p == 1 ? all : p == 2 ? sqrt(all) : pow(all, 1 / p);
  c.out(x.dtype() == DType::f32 ? y : cast(y, x.dtype()));
}

// The indices count in a tensor of the size that the windows cover; a larger output has zeros behind it.
void max_unpool_rule(Call& c) {
  c.expect_inputs(2, 3);
  const Value x = c.in(0);
  if (x.shape().rank() < 3) fail("its input {} has no spatial axes", x.shape().text());
  const auto axes = static_cast<size_t>(x.shape().rank() - 2);
  const std::vector<int64_t> kernel = c.integers("kernel_shape");
  const std::vector<int64_t> strides = c.integers("strides", std::vector<int64_t>(axes, 1));
  const std::vector<int64_t> pads = c.integers("pads", std::vector<int64_t>(2 * axes, 0));
  if (kernel.size() != axes || strides.size() != axes || pads.size() != 2 * axes)
    fail("it has {} kernel sizes, {} strides and {} pads for {} spatial axes", kernel.size(), strides.size(),
         pads.size(), axes);
  Shape size;
  for (size_t i = 0; i < axes; ++i) {
    size.push_back((x.shape()[static_cast<int64_t>(i) + 2] - Dim(1)) * Dim(strides[i]) + Dim(kernel[i]) -
                   Dim(pads[i]) - Dim(pads[axes + i]));
  }
  Value y = max_unpool(x, c.in(1), size, PoolIndices::tensor);
  if (c.has(2)) {
    const std::vector<int64_t> wanted = c.numbers(2, "the output shape");
    if (std::ssize(wanted) != y.shape().rank())
      fail("its output shape has {} numbers for {} axes", wanted.size(), y.shape().rank());
    std::vector<int64_t> after;
    for (size_t i = 0; i < wanted.size(); ++i)
      after.push_back((Dim(wanted[i]) - y.shape()[static_cast<int64_t>(i)]).value());
    y = pad(y, std::vector<int64_t>(wanted.size(), 0), after);
  }
  c.out(y);
}

void roi_align_rule(Call& c) {
  c.expect_inputs(3, 3);
  const std::string mode = c.text("mode", "avg");
  const std::string coordinates =
      c.text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") fail("its mode is '{}'", excerpt(mode));
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    fail("its coordinate_transformation_mode is '{}'", excerpt(coordinates));
  c.out(roi_align(c.in(0), c.in(1), c.in(2),
                  {.height = c.integer("output_height", 1),
                   .width = c.integer("output_width", 1),
                   .scale = c.real("spatial_scale", 1),
                   .sampling_ratio = c.integer("sampling_ratio", 0),
                   .half_pixel = coordinates == "half_pixel",
                   .mode = mode == "max" ? RoiMode::max : RoiMode::avg}));
}

}  // namespace

namespace rules {
void register_pool(RuleTable& table) {
  table.add("MaxPool", max_pool_rule);
  table.add("AveragePool", average_pool_rule);
  table.add("LpPool", lp_pool_rule);
  table.add("GlobalAveragePool", global_average_rule);
  table.add("GlobalMaxPool", global_max_rule);
  table.add("GlobalLpPool", global_lp_rule);
  table.add("MaxUnpool", max_unpool_rule);
  table.add("RoiAlign", roi_align_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
