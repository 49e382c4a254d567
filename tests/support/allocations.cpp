#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

#include "gpu/call_scope.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RLX_OWN_NEW 0
#elif defined(__has_feature)
#define RLX_OWN_NEW !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define RLX_OWN_NEW 1
#endif

namespace {

thread_local bool counting = false;
thread_local int64_t allocations = 0;
thread_local int64_t until_failure = -1;  // -1: none will fail

}  // namespace

#if RLX_OWN_NEW
namespace {

void* counted(std::size_t size) {
  if (counting && !rlx::gpu::inside_call()) ++allocations;
  if (until_failure >= 0 && !rlx::gpu::inside_call() && until_failure-- == 0) throw std::bad_alloc();
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace rlx::testing {

AllocationCounter::AllocationCounter() {
  allocations = 0;
  counting = true;
}
AllocationCounter::~AllocationCounter() { counting = false; }
int64_t AllocationCounter::count() const { return allocations; }
bool AllocationCounter::available() { return RLX_OWN_NEW; }

FailingAllocation::FailingAllocation(int64_t others) { until_failure = others; }
FailingAllocation::~FailingAllocation() { until_failure = -1; }
bool FailingAllocation::happened() const { return until_failure < 0; }

}  // namespace rlx::testing
