// Images of other sizes, and at other places.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class ResizeMode { nearest, linear, cubic };
// Which place in x an element of the result stands for, named as in ONNX.
enum class ResizeCoordinates {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize,
};
enum class ResizeRounding { round_prefer_floor, round_prefer_ceil, floor, ceil };
enum class ResizeAspect {
  stretch,      // the sizes as they are
  not_larger,   // one scale for all axes: the largest with which no axis exceeds its size
  not_smaller,  // the smallest with which every axis reaches it
};
struct ResizeOptions {
  std::vector<int64_t> axes = {};  // all when empty
  // Either of these, with a number for each of the axes.
  std::vector<double> scales = {};
  Shape sizes = {};
  ResizeMode mode = ResizeMode::linear;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  ResizeRounding rounding = ResizeRounding::round_prefer_floor;  // of the place, for nearest
  ResizeAspect aspect = ResizeAspect::stretch;
  bool antialias = false;        // weighs all elements of x that an element of a smaller result covers
  bool exclude_outside = false;  // what lies outside x has no weight, instead of that of x's ends
  double cubic_coeff = -0.75;
  // For tf_crop_and_resize: the region of x, begins of all axes and then ends, as parts of their length, and
  // the result where it leaves x.
  std::vector<double> roi = {};
  double outside = 0;
};
// x with other sizes along some axes. Integers and other types that have no weights can only be resized with
// `nearest`.
Value resize(Value x, const ResizeOptions& options);

enum class SamplePadding { zeros, border, reflection };
struct GridSampleOptions {
  ResizeMode mode = ResizeMode::linear;
  SamplePadding padding = SamplePadding::zeros;  // what lies outside x
  // Whether -1 and 1 are the centres of the first and last elements, or their outer edges.
  bool align_corners = false;
};
// x [batch, channels, spatial...] at the places of `grid` [batch, result spatial..., 1 to 3]: the last axis
// has coordinates from -1 to 1, that of x's last axis first. Cubic weights have the coefficient -0.75.
Value grid_sample(Value x, Value grid, const GridSampleOptions& options = {});
// The grid of an affine map: `theta` is [batch, 2, 3] or [batch, 3, 4], `size` the shape of the result that
// grid_sample is to make, [batch, channels, spatial...].
Value affine_grid(Value theta, Shape size, bool align_corners = false);

}  // namespace rlx
RLX_EXPORT_END
