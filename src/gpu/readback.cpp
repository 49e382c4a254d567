// What comes back from the device: staging memory from a pool, and tickets for the end of work.
#include <algorithm>
#include <bit>

#include "base/format.h"
#include "gpu/core.h"

namespace rlx::gpu {

namespace {

constexpr uint64_t kMinStagingBytes = 256;
constexpr size_t kMaxPooled = 32;
constexpr uint64_t kMaxPooledBytes = 128u << 20;  // in all

std::unique_ptr<Readback::Impl> take_from_pool(Core& core, uint64_t capacity) {
  const std::lock_guard lock(core.staging_mutex);
  const auto found =
      std::ranges::find(core.free_staging, capacity, [](const auto& free) { return free->capacity; });
  if (found == core.free_staging.end()) return nullptr;
  std::swap(*found, core.free_staging.back());
  std::unique_ptr<Readback::Impl> staging = std::move(core.free_staging.back());
  core.free_staging.pop_back();
  return staging;
}

// Whatever its state: unmaps it, and makes sure that no outstanding callback knows its address.
bool make_idle(Core& core, Readback::Impl& staging) {
  using State = Readback::Impl::State;
  if (staging.state == State::mapped || staging.state == State::pending) staging.buffer.Unmap();
  // Unmapping ended the mapping in progress, so this does not block.
  const bool settled = staging.state != State::pending || core.poll(staging.future);
  staging.state = State::idle;
  staging.failure.clear();
  return settled;
}

void release(std::unique_ptr<Readback::Impl> staging) {
  if (!staging) return;
  const CallScope scope;
  const std::shared_ptr<Core> core = std::exchange(staging->core, nullptr);
  if (!make_idle(*core, *staging)) {
    // Dawn may still call back to this address; a leak on a path that no driver is known to take.
    (void)staging.release();
    return;
  }
  const std::lock_guard lock(core->staging_mutex);
  uint64_t pooled = staging->capacity;
  for (const auto& free : core->free_staging) pooled += free->capacity;
  const bool room = core->free_staging.size() < kMaxPooled && pooled <= kMaxPooledBytes;
  if (room && !core->lost) core->free_staging.push_back(std::move(staging));
}

}  // namespace

Readback::Readback() = default;
Readback::~Readback() { release(std::move(impl_)); }
Readback::Readback(Readback&& other) noexcept
    : impl_(std::move(other.impl_)), size_(std::exchange(other.size_, 0)) {}
Readback& Readback::operator=(Readback&& other) noexcept {
  if (this == &other) return *this;
  release(std::exchange(impl_, std::move(other.impl_)));
  size_ = std::exchange(other.size_, 0);
  return *this;
}

bool Readback::ready() {
  const CallScope scope;
  if (!impl_ || impl_->state != Impl::State::pending) return true;
  return impl_->core->poll(impl_->future) || impl_->core->lost;
}

void Readback::wait() {
  const CallScope scope;
  if (!impl_ || impl_->state == Impl::State::idle) {
    fail(ErrorKind::invalid_argument, "waiting for a readback that was not given to any submit");
  }
  Core& core = *impl_->core;
  if (impl_->state == Impl::State::pending) core.wait(impl_->future);
  if (core.lost) core.fail_lost();
  if (impl_->state != Impl::State::mapped) {
    fail(ErrorKind::internal, "reading {} bytes back from the device '{}' failed: {}", size_, core.info.name,
         impl_->failure);
  }
  if (const std::optional<Error> error = core.take_late_error()) throw *error;
}

std::span<const std::byte> Readback::bytes() {
  wait();
  const CallScope scope;
  const void* data = impl_->buffer.GetConstMappedRange(0, impl_->capacity);
  if (data == nullptr)
    fail(ErrorKind::internal, "the device '{}' did not map its memory", impl_->core->info.name);
  return {static_cast<const std::byte*>(data), size_};
}

Readback Device::readback(uint64_t bytes) {
  Call call(*core_);
  const uint64_t limit = core_->info.caps.max_buffer_bytes;
  if (bytes > limit) {
    fail(ErrorKind::out_of_memory,
         "a readback of {} bytes is more than the {} that a buffer of the device '{}' can have", bytes, limit,
         core_->info.name);
  }
  const uint64_t capacity = std::min(std::bit_ceil(std::max(bytes, kMinStagingBytes)), limit);
  Readback readback;
  readback.impl_ = take_from_pool(*core_, capacity);
  if (!readback.impl_) {
    wgpu::BufferDescriptor descriptor;
    descriptor.label = "staging";
    descriptor.usage = wgpu::BufferUsage::MapRead | wgpu::BufferUsage::CopyDst;
    descriptor.size = capacity;
    auto staging = std::make_unique<Readback::Impl>();
    staging->buffer = core_->device.CreateBuffer(&descriptor);
    staging->capacity = capacity;
    if (std::optional<Error> error = call.take_error()) {
      throw error->within(formatted("a readback of {} bytes", capacity));
    }
    readback.impl_ = std::move(staging);
  }
  readback.impl_->core = core_;
  readback.size_ = bytes;
  return readback;
}

Ticket::Ticket() = default;
Ticket::~Ticket() {
  const CallScope scope;
  impl_.reset();
}
Ticket::Ticket(Ticket&&) noexcept = default;
Ticket& Ticket::operator=(Ticket&& other) noexcept {
  const CallScope scope;
  impl_ = std::move(other.impl_);
  return *this;
}

bool Ticket::ready() {
  const CallScope scope;
  if (!impl_ || impl_->end->done) return true;
  impl_->core->poll(impl_->end->future);
  return impl_->end->done || impl_->core->lost;
}

void Ticket::wait() {
  const CallScope scope;
  if (impl_) impl_->core->wait(*impl_->end);
}

Ticket Device::ticket() {
  Call call(*core_);
  Ticket ticket;
  ticket.impl_ = std::make_unique<Ticket::Impl>(core_, core_->end_of_queue());
  call.check();
  return ticket;
}

}  // namespace rlx::gpu
