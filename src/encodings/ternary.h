// What the encoders of GGUF's TQ1_0 and TQ2_0 share: the scale of -1, 0 and 1 for the elements of a block.
#pragma once

#include <span>

#include "encodings/block.h"

namespace rlx::ternary {

inline float scale_of(std::span<const float> values) {
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(v));
  float best = 0;
  float gain = 0;  // what the best one takes from the squared error
  for (int i = 1; i <= 32; ++i) {
    const float bound = largest * static_cast<float>(i) / 40;  // elements that are larger are not 0
    float sum = 0;
    float count = 0;
    for (const float v : values) {
      if (std::abs(v) <= bound) continue;
      sum += std::abs(v);
      count += 1;
    }
    if (count > 0 && sum * sum > gain * count) {
      gain = sum * sum / count;
      best = sum / count;
    }
  }
  return best;
}

}  // namespace rlx::ternary
