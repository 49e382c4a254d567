#include "tests/support/counters.h"

#include <mutex>

#include "gpu/device.h"
#include "runtime/device_access.h"
#include "runtime/executable.h"
#include "runtime/store.h"

namespace rlx {

void force_loss(const Device& device) { DeviceAccess::get(device)->force_loss(); }

int64_t submit_count(const Executable& executable) {
  Executable::Impl& impl = ExecutableAccess::get(executable);
  const Executable::Impl::Lock lock = impl.lock();
  return impl.submits;
}

int64_t relowered_count(const Executable& executable) {
  Executable::Impl& impl = ExecutableAccess::get(executable);
  const Executable::Impl::Lock lock = impl.lock();
  impl.finish_active();
  return impl.device_side->plans.relowered();
}

uint64_t upload_count(const Store& store) {
  Store::Impl& impl = *StoreAccess::get(store);
  const std::lock_guard lock(impl.mutex);
  return impl.uploads;
}

}  // namespace rlx
