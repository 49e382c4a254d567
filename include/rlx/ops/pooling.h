// Windows of images as one number each.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/ops/conv_layout.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct PoolOptions {
  std::vector<int64_t> strides = {};    // one for each spatial axis; all 1 when empty
  std::vector<int64_t> dilations = {};  // likewise
  std::vector<int64_t> pads = {};       // around x: all begins, then all ends; none when empty
  bool ceil_mode = false;               // also a last window that ends outside, if it begins inside
  ConvLayout layout = ConvLayout::channels_first;
};
// Over 1 to 3 spatial axes; `kernel` is the size of the windows. Padding holds no elements.
Value max_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
Value min_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
Value sum_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
// With `count_include_pad`, as PyTorch has it unless told otherwise, padding counts as zeros.
Value avg_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {},
               bool count_include_pad = false);
Value prod_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
Value lp_pool(Value x, std::vector<int64_t> kernel, double p = 2, const PoolOptions& options = {});
enum class PoolIndices {
  none,
  tensor,  // the index in all of x, as ONNX has it
  plane,   // the index over the spatial axes only, as PyTorch has it
};
struct PooledWithIndices {
  Value y;
  Value indices;  // i64: where the largest element is, the first among equals; -1 if the window has none
};
// `column_major`: the spatial axes count from the first to the last, not from the last to the first.
PooledWithIndices max_pool_with_indices(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                                        PoolIndices indices = PoolIndices::plane, bool column_major = false);
// As many windows along each spatial axis as `size` says, which together cover x; -1 for as many as x has
// elements.
Value adaptive_avg_pool(Value x, std::vector<int64_t> size, ConvLayout layout = ConvLayout::channels_first);
Value adaptive_max_pool(Value x, std::vector<int64_t> size, ConvLayout layout = ConvLayout::channels_first);
PooledWithIndices adaptive_max_pool_with_indices(Value x, std::vector<int64_t> size,
                                                 ConvLayout layout = ConvLayout::channels_first,
                                                 PoolIndices indices = PoolIndices::plane);
// Zeros [batch, channels, size...] with the elements of x where `indices` says, which max_pool_with_indices
// found; the last among those with the same index.
Value max_unpool(Value x, Value indices, Shape size, PoolIndices kind = PoolIndices::plane);

enum class RoiMode { avg, max };
struct RoiAlignOptions {
  int64_t height = 1, width = 1;  // of the result
  double scale = 1;               // from the coordinates of the regions to those of x
  int64_t sampling_ratio = 0;     // points along each axis of a bin; 0: as many as it has pixels
  bool half_pixel = true;         // pixel centres lie at .5 (`aligned` in PyTorch)
  RoiMode mode = RoiMode::avg;    // max: the largest of the weighted neighbours of all points, as ONNX has it
};
// Regions of images x [n, channels, h, w], each cut into height x width bins: [regions, channels, height,
// width]. `rois` [regions, 4] has x1, y1, x2, y2, `images` [regions] whose region it is.
Value roi_align(Value x, Value rois, Value images, const RoiAlignOptions& options);

}  // namespace rlx
RLX_EXPORT_END
