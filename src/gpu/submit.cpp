// The hot path: work is encoded and submitted, and nothing else.
#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu/core.h"

namespace rlx::gpu {

namespace {

const wgpu::Buffer& target_of(const Copy& copy, const Readback::Impl* staging) {
  if (copy.to != nullptr) {
    if (!*copy.to) fail(ErrorKind::invalid_argument, "a copy goes to an empty buffer handle");
    return copy.to->impl()->buffer;
  }
  if (staging == nullptr)
    fail(ErrorKind::invalid_argument, "a copy goes to the readback, but the submit has none");
  return staging->buffer;
}

void encode(const wgpu::CommandEncoder& encoder, std::span<const Copy> copies,
            const Readback::Impl* staging) {
  for (const Copy& copy : copies) {
    if (copy.bytes == 0) continue;
    if (copy.from == nullptr) {
      encoder.ClearBuffer(target_of(copy, staging), copy.to_offset, copy.bytes);
      continue;
    }
    if (!*copy.from) fail(ErrorKind::invalid_argument, "a copy has no source buffer");
    encoder.CopyBufferToBuffer(copy.from->impl()->buffer, copy.from_offset, target_of(copy, staging),
                               copy.to_offset, copy.bytes);
  }
}

void need_handles(const DispatchCommand& dispatch) {
  if (dispatch.pipeline == nullptr || !*dispatch.pipeline || dispatch.group == nullptr || !*dispatch.group) {
    fail(ErrorKind::invalid_argument, "a dispatch of the kernel '{}' lacks its pipeline or its bind group",
         dispatch.pipeline == nullptr ? std::string() : dispatch.pipeline->label());
  }
}

bool is_empty(const DispatchCommand& dispatch) {
  return dispatch.x == 0 || dispatch.y == 0 || dispatch.z == 0;
}

bool is_new(const DispatchCommand& dispatch) {
  return dispatch.pipeline != nullptr && *dispatch.pipeline && !is_empty(dispatch) &&
         !dispatch.pipeline->impl()->has_run.load(std::memory_order_relaxed);
}

void encode(const wgpu::ComputePassEncoder& pass, std::span<const DispatchCommand> dispatches) {
  const Pipeline::Impl* pipeline = nullptr;
  const BindGroup::Impl* group = nullptr;
  for (const DispatchCommand& dispatch : dispatches) {
    need_handles(dispatch);
    if (is_empty(dispatch)) continue;
    if (pipeline != dispatch.pipeline->impl()) {
      pipeline = dispatch.pipeline->impl();
      pass.SetPipeline(pipeline->pipeline);
    }
    if (group != dispatch.group->impl()) {
      group = dispatch.group->impl();
      pass.SetBindGroup(0, group->group);
    }
    pass.DispatchWorkgroups(dispatch.x, dispatch.y, dispatch.z);
  }
}

Readback::Impl* idle_staging(Readback::Impl* staging) {
  if (staging != nullptr && staging->state != Readback::Impl::State::idle) {
    fail(ErrorKind::invalid_argument, "a readback serves one submit, but this one was used before");
  }
  return staging;
}

void map(Readback::Impl& staging) {
  staging.state = Readback::Impl::State::pending;
  staging.future = staging.buffer.MapAsync(
      wgpu::MapMode::Read, 0, staging.capacity, wgpu::CallbackMode::WaitAnyOnly,
      [](wgpu::MapAsyncStatus status, wgpu::StringView message, Readback::Impl* staging) {
        if (status == wgpu::MapAsyncStatus::Success) {
          staging->state = Readback::Impl::State::mapped;
          return;
        }
        staging->state = Readback::Impl::State::failed;
        staging->failure = std::string_view(message);
      },
      &staging);
}

// Timestamps live in query sets of limited size, are resolved into a buffer and copied out of it.
class Timestamps {
 public:
  static constexpr size_t kDispatchesPerSet =
      2048;  // WebGPU allows 4096 queries in a set; a dispatch needs two
  static constexpr size_t kBytesPerDispatch = 2 * sizeof(uint64_t);

  Timestamps(const wgpu::Device& device, size_t dispatches) : dispatches_(dispatches) {
    for (size_t first = 0; first < dispatches; first += kDispatchesPerSet) {
      wgpu::QuerySetDescriptor descriptor;
      descriptor.type = wgpu::QueryType::Timestamp;
      descriptor.count = static_cast<uint32_t>(2 * std::min(kDispatchesPerSet, dispatches - first));
      sets_.push_back(device.CreateQuerySet(&descriptor));
    }
    wgpu::BufferDescriptor descriptor;
    descriptor.label = "timestamps";
    descriptor.usage = wgpu::BufferUsage::QueryResolve | wgpu::BufferUsage::CopySrc;
    descriptor.size = dispatches * kBytesPerDispatch;
    resolved_ = device.CreateBuffer(&descriptor);
  }

  wgpu::ComputePassEncoder begin_pass(const wgpu::CommandEncoder& encoder, size_t dispatch) const {
    wgpu::PassTimestampWrites writes;
    writes.querySet = sets_[dispatch / kDispatchesPerSet];
    writes.beginningOfPassWriteIndex = static_cast<uint32_t>(2 * (dispatch % kDispatchesPerSet));
    writes.endOfPassWriteIndex = writes.beginningOfPassWriteIndex + 1;
    wgpu::ComputePassDescriptor descriptor;
    descriptor.timestampWrites = &writes;
    return encoder.BeginComputePass(&descriptor);
  }

  void copy_out(const wgpu::CommandEncoder& encoder, const wgpu::Buffer& to) const {
    for (size_t i = 0; i < sets_.size(); ++i) {
      encoder.ResolveQuerySet(sets_[i], 0, sets_[i].GetCount(), resolved_,
                              i * kDispatchesPerSet * kBytesPerDispatch);
    }
    encoder.CopyBufferToBuffer(resolved_, 0, to, 0, dispatches_ * kBytesPerDispatch);
  }

 private:
  size_t dispatches_;
  std::vector<wgpu::QuerySet> sets_;
  wgpu::Buffer resolved_;
};

}  // namespace

bool Device::is_first_run(std::span<const DispatchCommand> dispatches) const {
  return core_->progress && std::ranges::any_of(dispatches, is_new);
}

bool Device::note_first_run(const DispatchCommand& dispatch) const {
  if (!is_new(dispatch)) return false;
  dispatch.pipeline->impl()->has_run = true;
  return true;
}

void Device::report(ProgressStage stage, int64_t done, int64_t total) const {
  core_->report(stage, done, total);
}

void Device::submit(const Work& work) {
  Call call(*core_);
  if (work.what) {
    const std::lock_guard lock(core_->error_mutex);
    core_->last_work = work.what;
  }
  Readback::Impl* staging = idle_staging(work.readback == nullptr ? nullptr : work.readback->impl_.get());
  const wgpu::CommandEncoder encoder = core_->device.CreateCommandEncoder();
  encode(encoder, work.before, staging);
  if (!work.dispatches.empty() && !core_->describes_pipelines) {
    const wgpu::ComputePassEncoder pass = encoder.BeginComputePass();
    encode(pass, work.dispatches);
    pass.End();
  }
  encode(encoder, work.after, staging);
  const wgpu::CommandBuffer commands = encoder.Finish();
  core_->queue.Submit(1, &commands);
  if (const std::optional<Error> error = call.take_error())
    throw work.what ? error->within(*work.what) : *error;
  call.check();
  if (staging != nullptr) map(*staging);
  call.check();
}

std::vector<DispatchTime> Device::submit_timed(const Work& work) {
  Call call(*core_);
  if (!core_->caps.timestamps) {
    fail(ErrorKind::unsupported, "the device '{}' has no timestamps, so dispatches cannot be timed",
         core_->info.name);
  }
  if (work.dispatches.empty()) {
    submit(work);
    return {};
  }
  Readback::Impl* staging = idle_staging(work.readback == nullptr ? nullptr : work.readback->impl_.get());
  const Timestamps timestamps(core_->device, work.dispatches.size());
  Readback times_staging = readback(work.dispatches.size() * Timestamps::kBytesPerDispatch);

  const wgpu::CommandEncoder encoder = core_->device.CreateCommandEncoder();
  encode(encoder, work.before, staging);
  for (size_t i = 0; i < work.dispatches.size(); ++i) {
    const wgpu::ComputePassEncoder pass = timestamps.begin_pass(encoder, i);
    encode(pass, work.dispatches.subspan(i, 1));
    pass.End();
  }
  timestamps.copy_out(encoder, times_staging.impl_->buffer);
  encode(encoder, work.after, staging);
  const wgpu::CommandBuffer commands = encoder.Finish();
  core_->queue.Submit(1, &commands);
  call.check();
  map(*times_staging.impl_);
  if (staging != nullptr) map(*staging);
  call.check();

  const std::span<const std::byte> bytes = times_staging.bytes();
  std::vector<DispatchTime> times(work.dispatches.size());
  static_assert(sizeof(DispatchTime) == Timestamps::kBytesPerDispatch);
  std::memcpy(times.data(), bytes.data(), times.size() * sizeof(DispatchTime));
  return times;
}

}  // namespace rlx::gpu
