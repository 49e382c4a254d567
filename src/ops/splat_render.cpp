// Pictures of splats: preparing and drawing in one op.
#include "ops/composite.h"
#include "ops/op_table.h"
#include "ops/splat.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<Value> gaussian_splat_render(Value positions, Value log_scales, Value rotations, Value opacities,
                                         Value colors, Value camera, const SplatOptions& options) {
  const std::vector<Value> ready =
      gaussian_splat_prepare(positions, log_scales, rotations, opacities, colors, camera, options);
  const std::vector<Value> drawn = gaussian_splat_rasterize(ready[0], ready[1], ready[2], camera, options);
  const Value alpha = slice(drawn[0], 2, 3, 1);
  return {drawn[0], drawn[1], reshape(alpha, {options.height, options.width})};
}

namespace {

struct SplatRender final : Composite<SplatRender> {
  static constexpr auto kName = "gaussian_splat_render";
  static constexpr int64_t kLeast = 6, kMost = 6;
  SplatOptions o;

  void visit_attributes(AttributeVisitor& v) override {
    v("width", o.width, 64);
    v("height", o.height, 64);
    v("tile_size", o.tile_size, 16);
    v("bins", o.bins, 4);
    v("radius_scale", o.radius_scale, 1.6);
    v("alpha_cutoff", o.alpha_cutoff, 1.0 / 255);
    v("transmittance_threshold", o.transmittance_threshold, 0.01);
    v.choice("opacity", o.opacity, {"linear", "logit"}, {SplatOpacity::linear});
    v.choice("quaternion", o.quaternion, {"wxyz", "xyzw"}, {SplatQuaternion::wxyz});
    v.choice("direction", o.direction, {"to_camera", "from_camera"}, {SplatDirection::to_camera});
    v("clamp_colors", o.clamp_colors, false);
    v("blur", o.blur, 0.0);
    v("antialiased", o.antialiased, false);
    v("gamma", o.gamma, 2.2);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return gaussian_splat_render(in[0], in[1], in[2], in[3], in[4], in[5], o);
  }
  // Where the edge of a splat falls between two roundings, a pixel changes by the cutoff times its colour.
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 4000, .scale = 1}; }
};

}  // namespace

namespace ops {
void register_splat_render(OpTable& table) {
  table.add<SplatRender>(
      {.formula = "a picture of Gaussian splats: gaussian_splat_rasterize of gaussian_splat_prepare; its "
                  "mean distance and "
                  "alpha",
       .operands = "positions log_scales rotations opacities colors camera",
       .types = "f32 f16",
       .variants = {"expanded"},
       .samples = {
           "gaussian_splat_render(T[40,3] in -90..90, T[40,3] in 1.5..3, T[40,4], T[40] in 0..1, "
           "T[40,16,3] in -1..1, f32[15] in 5..60) {width=90, height=70, alpha_cutoff=0.0001, bins=3}"}});
}
}  // namespace ops

}  // namespace rlx
