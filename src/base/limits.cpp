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

namespace {

// What kernels can put together of arrays, and what some device has.
void check_emulated(const SubgroupMatrix& unit) {
  const auto side = [](uint32_t n) { return n == 8 || n == 16; };
  const bool bytes = unit.component == DType::i8 || unit.component == DType::u8;
  const uint32_t deepest = unit.component == DType::f32 ? 8 : bytes ? 32 : 16;
  const bool sums = bytes ? unit.result == (unit.component == DType::i8 ? DType::i32 : DType::u32)
                          : unit.result == DType::f32 || unit.result == unit.component;
  const bool known = bytes || unit.component == DType::f32 || unit.component == DType::f16;
  const bool depth = (side(unit.k) || unit.k == 32) && unit.k <= deepest;
  if (known && sums && side(unit.m) && side(unit.n) && depth) return;
  fail(ErrorKind::invalid_argument,
       "matrix units of {} x {} x {} with these types cannot be emulated: m and n are 8 or 16, k is 8, 16 or "
       "32, at most 8 for f32 and 16 for f16; results are f32, f16 for f16, i32 for i8 and u32 for u8",
       unit.m, unit.n, unit.k);
}

}  // namespace

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
  for (const SubgroupMatrix& unit : limits.emulated_matrices) check_emulated(unit);
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
