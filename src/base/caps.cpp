#include "rlx/caps.h"

#include <algorithm>

namespace rlx {

Caps CapsOverride::apply(Caps caps) const {
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
