// The GPU that graphs run on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rlx/adapter.h"
#include "rlx/export.h"
#include "rlx/pending.h"

RLX_EXPORT_BEGIN
namespace rlx {

namespace gpu {
class Device;
}

// Bytes in buffers of a device: weights, states, intermediates, parameters.
struct MemoryUse {
  uint64_t bytes = 0;
  uint64_t most_bytes = 0;    // since the device was opened
  uint64_t budget_bytes = 0;  // DeviceOptions::memory_budget; 0: not known
};

// A handle; copies share the device, which may be used from any thread. What was compiled for it keeps it
// alive.
class Device {
 public:
  // Declared so that a move is a copy, and no handle is ever empty.
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;

  // The best adapter that fits the options; an error that lists the adapters when none does.
  static Device open(const DeviceOptions& options = {});
  // The same without waiting for the driver.
  static Pending<Device> open_async(const DeviceOptions& options = {});
  // Whether open() would find an adapter.
  static bool is_available(const DeviceOptions& options = {});

  const AdapterInfo& info() const;
  const Caps& caps() const;  // the adapter's, with DeviceOptions::limits applied
  MemoryUse memory() const;
  // Goes on with everything that is under way on the device and has been given a callback (Pending::then):
  // runs, compilations. True if something still is. For event loops; nobody needs it who calls get().
  bool poll() const;
  bool lost() const;

 private:
  friend struct DeviceAccess;
  explicit Device(std::shared_ptr<gpu::Device> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<gpu::Device> impl_;
};

// Device::open() for the first caller, and the same device for all others; opened again if it was lost. The
// device of compile(graph).
Device default_device();

}  // namespace rlx
RLX_EXPORT_END
