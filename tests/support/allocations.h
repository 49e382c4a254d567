// Counts the allocations of this thread except those inside src/gpu: Dawn makes some in every run.
#pragma once

#include <cstdint>

namespace rlx::testing {

class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  int64_t count() const;

  // False under a sanitizer, which has its own operator new.
  static bool available();
};

}  // namespace rlx::testing
