// Counts the allocations of this thread, those inside src/gpu aside: Dawn makes some of its own in every run.
#pragma once

#include <cstdint>

namespace rlx::testing {

class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  int64_t count() const;

  // False under a sanitizer, which has an operator new of its own.
  static bool available();
};

}  // namespace rlx::testing
