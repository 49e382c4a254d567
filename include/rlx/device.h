// The GPU that graphs run on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rlx/adapter.h"

namespace rlx {

namespace gpu {
class Device;
}

// A handle; copies share the device, which may be used from any thread. What was compiled for it keeps it
// alive.
class Device {
 public:
  // Declared so that a move is a copy, and no handle is ever empty.
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;

  // The best adapter that fits the options; an error that lists the adapters when none does.
  static Device open(const DeviceOptions& options = {});
  // Whether open() would find an adapter.
  static bool is_available(const DeviceOptions& options = {});

  const AdapterInfo& info() const;
  const Caps& caps() const;  // the adapter's, with DeviceOptions::limits applied
  bool lost() const;
  void force_loss();  // for tests of recovery

 private:
  friend struct DeviceAccess;
  explicit Device(std::shared_ptr<gpu::Device> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<gpu::Device> impl_;
};

}  // namespace rlx
