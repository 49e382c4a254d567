// What dispatches are predicted to take: by the estimate of the choice that made them, and where no choice
// did, by what they read, write and compute.
#pragma once

#include <span>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/rates.h"

namespace rlx {

// The bytes that they read and write, of a storage each once. Of a table of which
// some are picked, as many as are written.
double bytes_moved(std::span<const Dispatch> dispatches);

// Nanoseconds of each. What a choice takes in all is at the first of its dispatches, and the others have 0.
std::vector<double> predicted_ns(const Rates& rates, std::span<const Dispatch> dispatches);

}  // namespace rlx
