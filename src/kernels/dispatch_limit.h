// How long a plan may be.
#pragma once

#include <cstdint>

#include "base/fail.h"

namespace rlx {

// Each dispatch has kilobytes of memory, and a set of bindings, which drivers end the process for when there
// are too many: lavapipe at some 65,000 in all plans. A network has some hundreds.
inline constexpr int64_t kMostDispatches = int64_t{1} << 15;

// As soon as one more is asked for, not when all have been made. `before` are those of the nodes before.
inline void check_dispatch_count(int64_t before, int64_t own) {
  if (before + own <= kMostDispatches) return;
  const std::string those = before == 0 ? "" : formatted(" beside the {} of the nodes before it", before);
  fail(ErrorKind::unsupported, "it needs at least {} dispatches{}, and a plan can have {}", own, those,
       kMostDispatches);
}

}  // namespace rlx
