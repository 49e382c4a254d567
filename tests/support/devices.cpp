#include "tests/support/devices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "gpu/device.h"
#include "runtime/device_access.h"

namespace rlx::testing {
namespace {

std::vector<Device>& opened() {
  static std::vector<Device> devices;
  return devices;
}

const Device* open(const DeviceOptions& options) {
  opened().reserve(4);  // references to all stay valid
  opened().push_back(Device::open(options));
  return &opened().back();
}

// Compiling shaders is what tests spend their time on: the program's report says how many there were
// (tools/test_report.py sums them up).
class PipelineCount : public ::testing::Environment {
 public:
  // What is chosen for a device must not depend on what was measured on this machine before.
  void SetUp() override { setenv("RLX_NO_CALIBRATION", "1", /*overwrite=*/0); }
  void TearDown() override {
    uint64_t count = 0;
    for (const Device& device : opened()) count += DeviceAccess::get(device)->stats().pipelines_created;
    ::testing::Test::RecordProperty("pipelines", std::to_string(count));
    opened().clear();  // before the objects of the driver go, which the process destroys as it ends
  }
};

const ::testing::Environment* const kPipelineCount = ::testing::AddGlobalTestEnvironment(new PipelineCount);

}  // namespace

const Device& full_device() {
  static const Device* const device = open({});
  return *device;
}

const Device& small_device() {
  static const Device* const device = [] {
    DeviceOptions options;
    options.limits.max_binding_bytes = 65536;
    options.limits.max_storage_buffers = 8;
    options.limits.max_workgroups_per_dimension = 64;
    options.limits.no_f16 = true;
    options.limits.no_subgroups = true;
    return open(options);
  }();
  return *device;
}

const Device& emulating_device() {
  static const Device* const device = [] {
    DeviceOptions options;
    options.limits.emulated_matrices = {{DType::f32, DType::f32, 8, 8, 8},
                                        {DType::f16, DType::f32, 16, 16, 16},
                                        {DType::f16, DType::f32, 8, 16, 16},
                                        {DType::f16, DType::f16, 16, 16, 16},
                                        {DType::i8, DType::i32, 16, 16, 16}};
    return open(options);
  }();
  return *device;
}

const Device& experimental_device() {
  static const Device* const device = open({.experimental = true});
  return *device;
}

}  // namespace rlx::testing
