// The inside of a DeviceTensor.
#pragma once

#include "gpu/device.h"
#include "rlx/device_tensor.h"

namespace rlx {

struct DeviceTensor::Impl {
  std::shared_ptr<gpu::Device> device;
  DType dtype;
  std::vector<int64_t> shape;
  gpu::Buffer buffer;

  uint64_t bytes() const;  // of the elements on the device, up to a multiple of four
};

struct DeviceTensorAccess {
  static DeviceTensor::Impl& get(const DeviceTensor& tensor) { return *tensor.impl_; }
  // New memory, which reads as zeros.
  static DeviceTensor make(std::shared_ptr<gpu::Device> device, DType dtype, std::vector<int64_t> shape);
};

}  // namespace rlx
