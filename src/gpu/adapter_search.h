// Internal to src/gpu: the search for adapters with the WebGPU objects that it found.
#pragma once

#include <webgpu/webgpu_cpp.h>

#include <string>
#include <vector>

#include "gpu/adapter.h"

namespace rlx::gpu {

struct FoundAdapter {
  AdapterInfo info;
  wgpu::Adapter adapter;
};

struct AdapterSearch {
  wgpu::Instance instance;
  std::vector<FoundAdapter> fitting;  // best first
  std::vector<AdapterInfo> all;       // in the order of AdapterInfo::index
  std::string log;  // what Dawn and the drivers said meanwhile; the reason when nothing was found
};

AdapterSearch search_adapters(const DeviceOptions& options);
// That of the device that computes nothing, if Dawn has one.
AdapterSearch search_null_adapter();

}  // namespace rlx::gpu
