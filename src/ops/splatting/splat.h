// What the ops of Gaussian splatting share. Formulas: docs/splatting.md.
#pragma once

#include <string_view>

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "rlx/ops/splatting.h"

namespace rlx {

// The numbers of a splat as the camera sees it, by their place in a row of `splats`.
namespace splat_record {
inline constexpr int64_t kCenter = 0;  // x, y where the ray through its centre meets the plane at depth 1
inline constexpr int64_t kFactor = 2;  // of the inverse covariance around it, a triangle: xx, xy, yy
inline constexpr int64_t kLinear = 5;  // of the denominator: x, y
inline constexpr int64_t kSquare = 7;  // xx, xy, yy
inline constexpr int64_t kOpacity = 10;
inline constexpr int64_t kMost = 11;  // the squared distance where alpha reaches the cutoff
inline constexpr int64_t kColor = 12;
inline constexpr int64_t kDistance = 15;
inline constexpr int64_t kBox = 16;  // what can be seen of it: lower x, y, upper x, y
inline constexpr int64_t kLength = 20;
}  // namespace splat_record

inline constexpr int64_t kCameraLength = 15;
inline constexpr int64_t kLensCameraLength = 23;

// The picture is cut into tiles, and squares of tiles are bins.
struct SplatGrid {
  int64_t edge;          // tiles along the side of a bin
  int64_t across, down;  // bins
  int64_t count() const { return across * down; }
};
inline SplatGrid splat_grid(const SplatOptions& o) {
  const int64_t columns = ceil_div(o.width, o.tile_size);
  const int64_t rows = ceil_div(o.height, o.tile_size);
  const int64_t edge = ceil_div(std::max(columns, rows), o.bins);
  return {edge, ceil_div(columns, edge), ceil_div(rows, edge)};
}

// An error if a picture cannot have these sizes, or `camera` is none.
void check_splat_picture(const InferArgs& in, const SplatOptions& options, int64_t camera);

void reference_splat_prepare(RefContext& r, const SplatOptions& options);
void reference_splat_rasterize(RefContext& r, const SplatOptions& options);

// Of the ops that see splats of the world, as the table has them.
inline constexpr std::string_view kSplatOperands =
    "positions: [n, 3], the centres of the splats in the world\n"
    "log_scales (float): [n, 3], logarithms of the standard deviations along the axes of a splat\n"
    "rotations (float): [n, 4], quaternions, which need not have the length 1\n"
    "opacities (float): [n]\n"
    "colors (float): [n, 3], RGB, or [n, c, 3], spherical harmonics with c = 1, 4, 9 or 16\n"
    "camera (float): [15], position, target, up, field of view in degrees, near, far, background; "
    "[23] with a lens";

}  // namespace rlx
