// How the device resizes: which kernels, in which order of the axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/lowering.h"
#include "ops/resampling/resize_taps.h"
#include "rlx/ops/resampling.h"

namespace rlx {

// All that a resize is on the device.
struct ResizeProblem {
  const ResizeOptions* o;
  Operand x, y;
  std::vector<std::optional<Taps>> taps;  // of each axis; nothing for those that stay as they are

  std::string key() const;
  int64_t all_taps() const;
};
void lower_resize(Lowering& l, std::string_view op, ResizeProblem p);
std::vector<std::string> resize_variants();

}  // namespace rlx
