#include "tests/support/devices.h"

namespace rlx::testing {

const Device& full_device() {
  static const Device device = Device::open();
  return device;
}

const Device& small_device() {
  static const Device device = [] {
    DeviceOptions options;
    options.limits.max_binding_bytes = 65536;
    options.limits.max_storage_buffers = 8;
    options.limits.max_workgroups_per_dimension = 64;
    options.limits.no_f16 = true;
    options.limits.no_subgroups = true;
    return Device::open(options);
  }();
  return device;
}

}  // namespace rlx::testing
