// The order of axes in pictures, for convolutions, pools and norms.
#pragma once

namespace rlx {

enum class ConvLayout {
  channels_first,  // [batch, channels, spatial...]
  channels_last,   // [batch, spatial..., channels]
};

}  // namespace rlx
