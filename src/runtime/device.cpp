#include "rlx/device.h"

#include <mutex>
#include <optional>

#include "base/border.h"
#include "base/fail.h"
#include "gpu/device.h"
#include "runtime/calibration.h"
#include "runtime/device_access.h"
#include "runtime/pending_work.h"

namespace rlx {

std::vector<AdapterInfo> list_adapters(const DeviceOptions& options) try {
  return gpu::list_adapters(options);
} catch (...) {
  throw_as_error("looking for adapters");
}

Device Device::open(const DeviceOptions& options) try {
  std::shared_ptr<gpu::Device> device = gpu::Device::open(options);
  take_stored_calibration(*device, options);
  return Device(std::move(device));
} catch (...) {
  throw_as_error("opening a device");
}

Device default_device() {
  static std::mutex mutex;
  // Never destroyed: when a program ends, the driver may be gone before it.
  static auto& device = *new std::optional<Device>();
  const std::lock_guard lock(mutex);
  if (!device || device->lost()) device = Device::open();
  return *device;
}

namespace {

class OpenWork final : public PendingWork<Device> {
 public:
  explicit OpenWork(const DeviceOptions& options)
      : options_(options), opening_(gpu::Device::start_opening(options)) {}

 private:
  const char* what() const override { return "the opening of a device"; }
  bool step(bool block) override {
    if (block) opening_.wait();
    return opening_.ready();
  }
  Device result() override {
    std::shared_ptr<gpu::Device> device = opening_.take();
    take_stored_calibration(*device, options_);
    return DeviceAccess::make(std::move(device));
  }

  DeviceOptions options_;
  gpu::DeviceOpening opening_;
};

}  // namespace

Pending<Device> Device::open_async(const DeviceOptions& options) try {
  return Pending<Device>(std::make_shared<OpenWork>(options));
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
bool Device::poll() const { return impl_->poll(); }
bool Device::lost() const { return impl_->lost(); }

}  // namespace rlx
