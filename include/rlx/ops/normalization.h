// Norms over axes, and of images.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/ops/conv_layout.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// --- Normalisation over the trailing axes from `axis` on ---

// Without gamma or beta nothing is multiplied or added.
// With `only_axis` the norm is over that axis alone, such as the channels of each pixel (LayerNorm2d).
Value layer_norm(Value x, Value gamma = {}, Value beta = {}, double eps = 1e-5, int64_t axis = -1,
                 bool only_axis = false);
Value rms_norm(Value x, Value gamma = {}, Value beta = {}, double eps = 1e-5, int64_t axis = -1,
               bool only_axis = false);

// --- Normalisation of images: x is [batch, channels, spatial...]; gamma and beta are [channels] ---

// With known mean and variance [channels] along `axis`: (x - mean) / sqrt(variance + eps) * gamma + beta.
Value batch_norm(Value x, Value mean, Value variance, Value gamma = {}, Value beta = {}, double eps = 1e-5,
                 int64_t axis = 1);
// Over the elements of each group of neighbouring channels.
Value group_norm(Value x, int64_t groups, Value gamma = {}, Value beta = {}, double eps = 1e-5,
                 ConvLayout layout = ConvLayout::channels_first);
// A group for each channel.
Value instance_norm(Value x, Value gamma = {}, Value beta = {}, double eps = 1e-5,
                    ConvLayout layout = ConvLayout::channels_first);
// x / (sum |x|^p)^(1/p) along the axis, for p = 1 or 2; NaN where all of it is 0.
Value lp_normalize(Value x, int64_t p = 2, int64_t axis = -1);
// (x - mean) / (sqrt(variance) + eps) over any axes.
Value mean_variance_norm(Value x, std::vector<int64_t> axes, double eps = 1e-9);
// x / (k + alpha / size * s)^beta, where s is the sum of squares of `size` neighbouring channels.
Value local_response_norm(Value x, int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);

}  // namespace rlx
RLX_EXPORT_END
