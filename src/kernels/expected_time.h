// How long a dispatch is estimated to take, for keeping submits short: each by itself, without allocating,
// also in a run with a new length. What nodes take together is in kernels/dispatch_cost.h.
#pragma once

#include <algorithm>

#include "kernels/binder.h"
#include "kernels/dispatch.h"
#include "kernels/rates.h"
#include "kernels/target.h"

namespace rlx {

// What its table of kernels says, but no less than it takes to go through the memory that is bound.
inline double expected_ns(const Rates& rates, const BoundDispatch& d) {
  double bytes = 0;
  for (const BoundRange& range : d.ranges) bytes += static_cast<double>(range.bytes);
  return rates.dispatch_ns + std::max(d.variant.predicted_ns(), bytes / rates.bytes_per_ns);
}

// Whether a dispatch is estimated to take no longer than one may.
inline bool is_short(const Dispatch& d, const Target& target) {
  return target.longest_ns == 0 || d.variant.predicted_ns() <= target.longest_ns;
}

}  // namespace rlx
