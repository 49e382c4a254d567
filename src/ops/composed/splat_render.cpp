// Pictures of splats: preparing and drawing in one op.
#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "ops/splatting/splat.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

RenderedSplats gaussian_splat_render(Value positions, Value log_scales, Value rotations, Value opacities,
                                     Value colors, Value camera, const SplatOptions& options) {
  const auto [splats, lists, counts] =
      gaussian_splat_prepare(positions, log_scales, rotations, opacities, colors, camera, options);
  const auto [picture, distance] = gaussian_splat_rasterize(splats, lists, counts, camera, options);
  return {picture, distance, reshape(slice(picture, 2, 3, 1), {options.height, options.width})};
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
    const auto [picture, distance, alpha] =
        gaussian_splat_render(in[0], in[1], in[2], in[3], in[4], in[5], o);
    return {picture, distance, alpha};
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
       .operands = kSplatOperands,
       .attributes =
           "width: of the picture, in pixels\n"
           "height: of the picture, in pixels\n"
           "tile_size: pixels along the side of the square that a workgroup draws: 4, 8 or 16\n"
           "bins: how many lists of splats there are along the longer side of the picture\n"
           "radius_scale: how many times larger splats are than their scales say\n"
           "alpha_cutoff: a splat is not seen where its alpha is less\n"
           "transmittance_threshold: a pixel is finished when less than this part of the light comes "
           "through\n"
           "opacity: how opacities are given\n"
           "quaternion: the order of the numbers of a rotation\n"
           "direction: which way spherical harmonics look, between splat and camera\n"
           "clamp_colors: colours from spherical harmonics are at least 0\n"
           "blur: the variance, in square pixels, of a filter that widens splats; 0: no filter\n"
           "antialiased: what the filter widens becomes more transparent, so that it keeps its weight\n"
           "gamma: the power to which colours are raised in the picture",
       .outputs = "picture (f32): [height, width, 4], RGB and alpha\n"
                  "distance (f32): [height, width], the mean distance of what is seen; 0 where nothing is\n"
                  "alpha (f32): [height, width], that of the picture",
       .types = "f32 f16",
       .variants = {"expanded"},
       .samples = {
           "gaussian_splat_render(T[40,3] in -90..90, T[40,3] in 1.5..3, T[40,4], T[40] in 0..1, "
           "T[40,16,3] in -1..1, f32[15] in 5..60) {width=90, height=70, alpha_cutoff=0.0001, bins=3}"}});
}
}  // namespace ops

}  // namespace rlx
