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

// Lets one allocation of this thread fail, the one after this many others; those inside src/gpu do not count.
class FailingAllocation {
 public:
  explicit FailingAllocation(int64_t others);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  bool happened() const;
};

}  // namespace rlx::testing
