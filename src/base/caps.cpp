#include "rlx/caps.h"

#include "base/fail.h"

#include <algorithm>

namespace rlx {

Caps CapsOverride::apply(Caps caps) const {
  if (max_binding_bytes != 0 && max_binding_bytes < kLeastBindingBytes) {
    fail(ErrorKind::invalid_argument, "bindings cannot be limited to {} bytes; {} is the least",
         max_binding_bytes, kLeastBindingBytes);
  }
  const auto lower = [](auto& limit, auto wanted) {
    if (wanted != 0) limit = std::min(limit, wanted);
  };
  lower(caps.max_binding_bytes, max_binding_bytes);
  lower(caps.max_buffer_bytes, max_buffer_bytes);
  lower(caps.max_storage_buffers, max_storage_buffers);
  lower(caps.max_workgroups_per_dimension, max_workgroups_per_dimension);
  if (no_f16) caps.shader_f16 = false;
  if (no_subgroups) caps.subgroups = false;
  return caps;
}

}  // namespace rlx
