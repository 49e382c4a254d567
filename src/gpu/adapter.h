// Looking for adapters; the types are public.
#pragma once

#include "rlx/adapter.h"

namespace rlx::gpu {

using rlx::AdapterInfo;
using rlx::DeviceOptions;

// The adapters that fit the options, best first. If there are none, the list is empty; that is not an error.
std::vector<AdapterInfo> list_adapters(const DeviceOptions& options = {});

}  // namespace rlx::gpu
