// What a device can do, as plain numbers: lowering and planning need only this, not a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/dtype.h"
#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class AdapterKind {
  cpu,  // the "GPU" is the CPU (lavapipe, SwiftShader)
  integrated,
  discrete,
  other,  // the driver does not say
};
std::string_view to_string(AdapterKind kind);

// Whose hardware it is, as far as kernels are chosen by it.
enum class GpuFamily { amd, nvidia, apple, qualcomm, intel, other };
std::string_view to_string(GpuFamily family);

// What the lanes of a subgroup multiply together: [m, k] by [k, n] elements of `component`, summed in
// `result`.
struct SubgroupMatrix {
  DType component = DType::f32;
  DType result = DType::f32;
  uint32_t m = 0, n = 0, k = 0;
  friend bool operator==(const SubgroupMatrix&, const SubgroupMatrix&) = default;
};

// How fast the device is, as a Calibration found it (rlx/calibration.h); 0: not measured.
struct MeasuredSpeed {
  double product_gflops = 0;
  double memory_gbps = 0;  // read and written, beyond the caches
  double cache_gbps = 0;   // where they hold what is copied
  double dispatch_ns = 0;
  double roundtrip_ns = 0;  // of a run that computes next to nothing
  friend bool operator==(const MeasuredSpeed&, const MeasuredSpeed&) = default;
};

struct Caps {
  std::string adapter = "none";  // its name, for messages
  AdapterKind kind = AdapterKind::other;
  GpuFamily family = GpuFamily::other;
  uint64_t memory_bytes = 0;  // of all heaps that the adapter can use; 0: unknown
  bool shader_f16 = false;
  bool subgroups = false;
  bool timestamps = false;
  uint32_t subgroup_min_size = 0;
  uint32_t subgroup_max_size = 0;
  bool subgroup_size_control = false;                  // a kernel may say which of the sizes it wants
  std::vector<SubgroupMatrix> subgroup_matrices = {};  // none without DeviceOptions::experimental
  bool emulated_matrices = false;                      // kernels have arrays instead of them
  uint64_t max_buffer_bytes = 256u << 20;
  uint64_t max_binding_bytes = 128u << 20;
  uint32_t max_storage_buffers = 8;  // per shader stage
  uint32_t max_workgroups_per_dimension = 65535;
  uint32_t max_invocations_per_workgroup = 256;
  uint32_t max_workgroup_bytes = 16384;
  uint32_t max_uniform_bytes = 65536;
  MeasuredSpeed measured = {};

  bool software() const { return kind == AdapterKind::cpu; }
};

// The limits that a user or a test may lower below what the device offers; 0 and false leave them as they
// are. Bindings of less than 4096 bytes are refused when the device is opened.
struct CapsOverride {
  uint64_t max_binding_bytes = 0;
  uint64_t max_buffer_bytes = 0;
  uint32_t max_storage_buffers = 0;
  uint32_t max_workgroups_per_dimension = 0;
  // Not less than the device has, but other matrix units, made of arrays: slow, for tests of kernels that no
  // device at hand can run.
  std::vector<SubgroupMatrix> emulated_matrices = {};
  bool no_f16 = false;
  bool no_subgroups = false;
};

}  // namespace rlx
RLX_EXPORT_END
