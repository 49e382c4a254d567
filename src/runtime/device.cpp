#include "rlx/device.h"

#include "base/border.h"
#include "base/fail.h"
#include "gpu/device.h"

namespace rlx {

std::vector<AdapterInfo> list_adapters(const DeviceOptions& options) try {
  return gpu::list_adapters(options);
} catch (...) {
  throw_as_error("looking for adapters");
}

Device Device::open(const DeviceOptions& options) try {
  return Device(gpu::Device::open(options));
} catch (...) {
  throw_as_error("opening a device");
}

bool Device::is_available(const DeviceOptions& options) {
  try {
    return !gpu::list_adapters(options).empty();
  } catch (const Error&) {
    return false;  // the options name no backend that exists
  }
}

const AdapterInfo& Device::info() const { return impl_->info(); }
const Caps& Device::caps() const { return impl_->caps(); }
MemoryUse Device::memory() const { return impl_->memory(); }
bool Device::lost() const { return impl_->lost(); }
void Device::force_loss() { impl_->force_loss(); }

}  // namespace rlx
