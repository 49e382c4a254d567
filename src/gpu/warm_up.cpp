#include "gpu/warm_up.h"

#include <exception>
#include <mutex>
#include <utility>

namespace rlx::gpu {
namespace {

// Nothing is read or written, but WebGPU wants the smallest part of each binding to exist.
constexpr uint64_t kUniformBytes = 1u << 16;
constexpr uint64_t kStorageBytes = 4096;

wgpu::Buffer make_buffer(const Core& core, wgpu::BufferUsage usage, uint64_t bytes) {
  wgpu::BufferDescriptor descriptor;
  descriptor.label = "of dispatches of nothing";
  descriptor.usage = usage;
  descriptor.size = bytes;
  return core.device.CreateBuffer(&descriptor);
}

// Those that are written may not overlap, nor be read in the same dispatch.
wgpu::BindGroup bind_nothing(Core& core, const Pipeline::Impl& pipeline) {
  const std::vector<BindingKind>& kinds = pipeline.request.bindings;
  std::vector<wgpu::BindGroupEntry> entries(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    const bool is_uniform = kinds[i] == BindingKind::uniform;
    entries[i].binding = static_cast<uint32_t>(i);
    entries[i].buffer = is_uniform                      ? core.nothing.uniform
                        : kinds[i] == BindingKind::read ? core.nothing.read
                                                        : core.nothing.written;
    entries[i].offset = kinds[i] == BindingKind::read_write ? i * kStorageBytes : 0;
    entries[i].size = is_uniform ? kUniformBytes : kStorageBytes;
  }
  wgpu::BindGroupDescriptor descriptor;
  descriptor.layout = pipeline.layout;
  descriptor.entryCount = entries.size();
  descriptor.entries = entries.data();
  return core.device.CreateBindGroup(&descriptor);
}

}  // namespace

void dispatch_nothing(Core& core, const Pipeline::Impl& pipeline) try {
  const Call call(core);  // its errors are dropped with it
  std::call_once(core.nothing.once, [&] {
    constexpr uint64_t kMostBindings = 64;
    core.nothing.uniform = make_buffer(core, wgpu::BufferUsage::Uniform, kUniformBytes);
    core.nothing.read = make_buffer(core, wgpu::BufferUsage::Storage, kStorageBytes);
    core.nothing.written = make_buffer(core, wgpu::BufferUsage::Storage, kMostBindings * kStorageBytes);
  });
  const wgpu::CommandEncoder encoder = core.device.CreateCommandEncoder();
  const wgpu::ComputePassEncoder pass = encoder.BeginComputePass();
  pass.SetPipeline(pipeline.pipeline);
  pass.SetBindGroup(0, bind_nothing(core, pipeline));
  {
    // Dawn warns of it once, and looks into a set for that which nothing guards.
    const std::lock_guard lock(core.nothing.warning);
    pass.DispatchWorkgroups(0, 0, 0);
  }
  pass.End();
  const wgpu::CommandBuffer commands = encoder.Finish();
  core.queue.Submit(1, &commands);
} catch (const std::exception&) {
  // The device is lost, which the next call says.
}

bool SideDevice::compile(std::shared_ptr<const Pipeline::Impl> pipeline) try {
  if (failed_) return false;
  if (!device_) device_ = Device::open(core_.side_options);
  device_->compile_alone(pipeline->request);
  compiled_.push_back(std::move(pipeline));
  return true;
} catch (const std::exception&) {
  failed_ = true;
  return false;
}

void SideDevice::finish() {
  device_.reset();
  for (const auto& pipeline : compiled_) dispatch_nothing(core_, *pipeline);
}

}  // namespace rlx::gpu
