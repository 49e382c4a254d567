// Convolutions, and the windows that they look at.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/ops/conv_layout.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct ConvOptions {
  std::vector<int64_t> strides = {};    // one for each spatial axis; all 1 when empty
  std::vector<int64_t> dilations = {};  // likewise
  std::vector<int64_t> pads = {};       // zeros around x: all begins, then all ends; none when empty
  int64_t groups = 1;                   // as many as channels: depthwise
  ConvLayout layout = ConvLayout::channels_first;  // of x and the result
};
// Over 1 to 3 spatial axes. `w` is [filters, channels / groups, kernel...] in either layout, `bias`
// [filters].
Value conv(Value x, Value w, Value bias = {}, const ConvOptions& options = {});

struct ConvTransposeOptions {
  std::vector<int64_t> strides = {};    // one for each spatial axis; all 1 when empty
  std::vector<int64_t> dilations = {};  // likewise
  std::vector<int64_t> pads = {};       // cut from the result: all begins, then all ends; none when empty
  std::vector<int64_t> output_padding = {};  // more elements at the end of each axis; none when empty
  int64_t groups = 1;
  ConvLayout layout = ConvLayout::channels_first;  // of x and the result
};
// The transpose of a convolution, over 1 to 3 spatial axes: each element of x adds its multiple of the kernel
// to the result, from its index times the stride on. `w` is [channels, filters / groups, kernel...] in either
// layout, `bias` [filters].
Value conv_transpose(Value x, Value w, Value bias = {}, const ConvTransposeOptions& options = {});

struct DeformConvOptions {
  std::vector<int64_t> strides = {};  // as for conv
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> pads = {};
  int64_t groups = 1;
  int64_t offset_groups = 1;  // of channels that move together
};
// A convolution of x [batch, channels, height, width] whose taps are moved by `offset` [batch, offset groups
// * kernel height * kernel width * 2 (down, right), result height, result width], interpolated between
// elements and multiplied by `mask` [batch, offset groups * kernel height * kernel width, result height,
// result width].
Value deform_conv(Value x, Value w, Value offset, Value bias = {}, Value mask = {},
                  const DeformConvOptions& options = {});

struct WindowOptions {
  std::vector<int64_t> strides = {};  // as for conv
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> pads = {};
};
// The windows of a convolution with a kernel of this size as columns: x [batch, channels, spatial...] becomes
// [batch, channels * kernel elements, windows].
Value im2col(Value x, std::vector<int64_t> kernel, const WindowOptions& options = {});
// The transpose of im2col: the windows of an image with these spatial sizes, added up where they overlap.
Value col2im(Value columns, std::vector<int64_t> image, std::vector<int64_t> kernel,
             const WindowOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
