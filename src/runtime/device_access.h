// The device behind the public handle.
#pragma once

#include "rlx/device.h"

namespace rlx {

struct DeviceAccess {
  static const std::shared_ptr<gpu::Device>& get(const Device& device) { return device.impl_; }
  static Device make(std::shared_ptr<gpu::Device> device) { return Device(std::move(device)); }
};

}  // namespace rlx
