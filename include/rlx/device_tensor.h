// A tensor on the device: what a run leaves there for another one, of any executable on that device.
//
//   auto hidden = encoder.run_on_device({{"x", x}});      // nothing comes back to the host
//   auto words = decoder.run({{"hidden", hidden.at("hidden")}});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rlx/device.h"
#include "rlx/export.h"
#include "rlx/tensor.h"

RLX_EXPORT_BEGIN
namespace rlx {

// A handle: copies share the memory, which is freed with the last of them. Runs and calls take effect in the
// order in which they are made, so a tensor may be given to a run before its elements have been computed.
class DeviceTensor {
 public:
  // A copy of a tensor of the host. Encoded types are for params and have none.
  DeviceTensor(const Device& device, const Tensor& value);
  // A move is a copy, so that no handle is ever empty.
  DeviceTensor(const DeviceTensor&) = default;
  DeviceTensor& operator=(const DeviceTensor&) = default;
  static DeviceTensor zeros(const Device& device, DType dtype, std::vector<int64_t> shape);

  DType dtype() const;
  const std::vector<int64_t>& shape() const;
  int64_t elements() const;
  std::string type_text() const;  // f32[2, 3]

  // Waits for the work before it and copies the elements to the host.
  Tensor read() const;
  // Replaces the elements; the value must have the same type and shape.
  void write(const Tensor& value);
  // Other memory with the same elements.
  DeviceTensor clone() const;

  struct Impl;

 private:
  friend struct DeviceTensorAccess;
  explicit DeviceTensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

using NamedDeviceTensors = std::map<std::string, DeviceTensor, std::less<>>;

}  // namespace rlx
RLX_EXPORT_END
