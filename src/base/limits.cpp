#include "base/limits.h"

#include <algorithm>

#include "base/fail.h"

namespace rlx {

std::string_view to_string(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::cpu:
      return "cpu";
    case AdapterKind::integrated:
      return "integrated";
    case AdapterKind::discrete:
      return "discrete";
    case AdapterKind::other:
      break;
  }
  return "other";
}

std::string_view to_string(GpuFamily family) {
  switch (family) {
    case GpuFamily::amd:
      return "amd";
    case GpuFamily::nvidia:
      return "nvidia";
    case GpuFamily::apple:
      return "apple";
    case GpuFamily::qualcomm:
      return "qualcomm";
    case GpuFamily::intel:
      return "intel";
    case GpuFamily::other:
      break;
  }
  return "other";
}

Caps lowered(Caps caps, const CapsOverride& limits) {
  if (limits.max_binding_bytes != 0 && limits.max_binding_bytes < kLeastBindingBytes) {
    fail(ErrorKind::invalid_argument, "bindings cannot be limited to {} bytes; the minimum is {}",
         limits.max_binding_bytes, kLeastBindingBytes);
  }
  const auto lower = [](auto& limit, auto wanted) {
    if (wanted != 0) limit = std::min(limit, wanted);
  };
  lower(caps.max_binding_bytes, limits.max_binding_bytes);
  lower(caps.max_buffer_bytes, limits.max_buffer_bytes);
  lower(caps.max_storage_buffers, limits.max_storage_buffers);
  lower(caps.max_workgroups_per_dimension, limits.max_workgroups_per_dimension);
  if (!limits.emulated_matrices.empty()) {
    caps.subgroup_matrices = limits.emulated_matrices;
    caps.emulated_matrices = true;
  }
  if (limits.no_f16) caps.shader_f16 = false;
  if (!caps.shader_f16) {
    std::erase_if(caps.subgroup_matrices, [](const SubgroupMatrix& s) {
      return s.component == DType::f16 || s.result == DType::f16;
    });
  }
  if (limits.no_subgroups) {
    caps.subgroups = false;
    caps.subgroup_matrices.clear();
  }
  return caps;
}

}  // namespace rlx
