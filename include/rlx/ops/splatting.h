// Scenes of 3D Gaussians. Conventions and formulas: docs/splatting.md.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class SplatOpacity { linear, logit };
enum class SplatQuaternion { wxyz, xyzw };
// Along which direction spherical harmonics are evaluated: from the splat to the camera, or the other way
// round, as in the files of 3D Gaussian splatting.
enum class SplatDirection { to_camera, from_camera };

struct SplatOptions {
  int64_t width = 64;
  int64_t height = 64;
  int64_t tile_size = 16;     // pixels along the side of what a workgroup draws: 4, 8 or 16
  int64_t bins = 4;           // lists along the longer side of the picture, each for a square of tiles
  double radius_scale = 1.6;  // by which all splats are larger than their scales say
  double alpha_cutoff = 1.0 / 255;
  double transmittance_threshold = 0.01;  // a pixel through which less light comes is finished
  SplatOpacity opacity = SplatOpacity::linear;
  SplatQuaternion quaternion = SplatQuaternion::wxyz;
  SplatDirection direction = SplatDirection::to_camera;
  bool clamp_colors = false;  // colours from harmonics are at least 0
  double blur = 0;            // in square pixels, the variance of a filter that widens splats; 0.3 is usual
  bool antialiased = false;   // what the filter widens becomes more transparent, so that it keeps its weight
  double gamma = 2.2;         // the picture is its colours to this power
};

// What a picture of n splats needs.
struct PreparedSplats {
  Value splats;  // [n, 20], by distance
  Value lists;   // [bins, n]: those that each bin may show
  Value counts;  // [bins]: how many
};
// `positions` and `log_scales` are [n, 3], `rotations` [n, 4], `opacities` [n], `colors` [n, 3] RGB or
// [n, c, 3] spherical harmonics (c = 1, 4, 9 or 16), `camera` [15] or, with the coefficients of a lens, [23].
PreparedSplats gaussian_splat_prepare(Value positions, Value log_scales, Value rotations, Value opacities,
                                      Value colors, Value camera, const SplatOptions& options);
struct DrawnSplats {
  Value picture;   // [height, width, 4], RGB and alpha
  Value distance;  // [height, width]
};
// Of what was prepared with the same options.
DrawnSplats gaussian_splat_rasterize(Value splats, Value lists, Value counts, Value camera,
                                     const SplatOptions& options);
struct RenderedSplats {
  Value picture;   // [height, width, 4], RGB and alpha
  Value distance;  // [height, width]
  Value alpha;     // [height, width]
};
// Both.
RenderedSplats gaussian_splat_render(Value positions, Value log_scales, Value rotations, Value opacities,
                                     Value colors, Value camera, const SplatOptions& options);

}  // namespace rlx
RLX_EXPORT_END
