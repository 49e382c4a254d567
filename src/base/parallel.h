// A loop over blocks on all cores, for the CPU reference.
#pragma once

#include <cstdint>
#include <functional>

namespace rlx {

// Calls body(begin, end) for ranges that together cover [0, count), each except the last at least `grain`
// long.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace rlx
