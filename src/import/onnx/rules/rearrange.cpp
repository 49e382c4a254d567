// DepthToSpace, SpaceToDepth and CenterCropPad.
#include "rlx/ops/rearrange.h"
#include "import/onnx/rules.h"

namespace rlx::onnx {
namespace {

void depth_to_space_rule(Call& c) {
  c.expect_inputs(1, 1);
  const std::string mode = c.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") fail("its mode is '{}'", excerpt(mode));
  const DepthOrder order = mode == "DCR" ? DepthOrder::dcr : DepthOrder::crd;
  c.out(depth_to_space(c.in(0), c.integer("blocksize"), order));
}

void space_to_depth_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.out(space_to_depth(c.in(0), c.integer("blocksize")));
}

void center_crop_pad_rule(Call& c) {
  c.expect_inputs(2, 2);
  c.out(center_crop_pad(c.in(0), c.dims(1, "the list of sizes"), c.integers("axes")));
}

}  // namespace

namespace rules {
void register_rearrange(RuleTable& table) {
  table.add("DepthToSpace", depth_to_space_rule);
  table.add("SpaceToDepth", space_to_depth_rule);
  table.add("CenterCropPad", center_crop_pad_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
