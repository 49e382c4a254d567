// Looking for adapters; the types are public.
#pragma once

#include "rlx/adapter.h"

namespace rlx::gpu {

using rlx::AdapterInfo;
using rlx::DeviceOptions;

// The adapters that fit the options, best first. None is an empty list, not an error.
std::vector<AdapterInfo> list_adapters(const DeviceOptions& options = {});

}  // namespace rlx::gpu
