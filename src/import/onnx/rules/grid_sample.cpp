// GridSample and AffineGrid.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/resampling.h"

namespace rlx::onnx {
namespace {

ResizeMode mode_of(const std::string& name) {
  if (name == "linear" || name == "bilinear") return ResizeMode::linear;
  if (name == "nearest") return ResizeMode::nearest;
  if (name == "cubic" || name == "bicubic") return ResizeMode::cubic;
  fail("its mode is '{}'", excerpt(name));
}

SamplePadding padding_of(const std::string& name) {
  if (name == "zeros") return SamplePadding::zeros;
  if (name == "border") return SamplePadding::border;
  if (name == "reflection") return SamplePadding::reflection;
  fail("its padding_mode is '{}'", excerpt(name));
}

void grid_sample_rule(Call& c) {
  c.expect_inputs(2, 2);
  const Value x = c.in(0);
  const GridSampleOptions options{.mode = mode_of(c.text("mode", "linear")),
                                  .padding = padding_of(c.text("padding_mode", "zeros")),
                                  .align_corners = c.flag("align_corners", false)};
  if (is_float(x.dtype())) return c.out(grid_sample(x, c.in(1), options));
  c.out(cast(grid_sample(cast(x, DType::f32), c.in(1), options), x.dtype()));
}

void affine_grid_rule(Call& c) {
  c.expect_inputs(2, 2);
  c.out(affine_grid(c.in(0), Shape(c.dims(1, "the size")), c.flag("align_corners", false)));
}

}  // namespace

namespace rules {
void register_grid_sample(RuleTable& table) {
  table.add("GridSample", grid_sample_rule);
  table.add("AffineGrid", affine_grid_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
