// Buffers, their contents, and bind groups.
#include "gpu/device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "base/format.h"
#include "gpu/core.h"

namespace rlx::gpu {

namespace {

// Dawn stages every write in memory of the same size until the queue has run it. In pieces, with an
// occasional wait, a model of gigabytes needs no second copy of itself.
constexpr uint64_t kUploadPiece = 16u << 20;
constexpr uint64_t kMaxBytesInUpload = 64u << 20;

wgpu::BufferUsage usage_of(BufferUse use) {
  const wgpu::BufferUsage copies = wgpu::BufferUsage::CopySrc | wgpu::BufferUsage::CopyDst;
  return copies | (use == BufferUse::storage ? wgpu::BufferUsage::Storage : wgpu::BufferUsage::Uniform);
}

const Buffer::Impl& checked(const Buffer& buffer, uint64_t offset, uint64_t bytes, const char* action) {
  if (!buffer) fail(ErrorKind::invalid_argument, "{} needs a buffer, but got an empty handle", action);
  if (offset > buffer.size() || bytes > buffer.size() - offset) {
    fail(ErrorKind::invalid_argument, "{} {} bytes at offset {} is outside the {} bytes of the buffer '{}'",
         action, bytes, offset, buffer.size(), buffer.impl()->label);
  }
  return *buffer.impl();
}

void need_multiple_of_4(uint64_t number, const char* what, const Buffer& buffer) {
  if (number % 4 != 0) {
    fail(ErrorKind::invalid_argument, "the {} {} in the buffer '{}' is not a multiple of 4", what, number,
         buffer.impl()->label);
  }
}

}  // namespace

Buffer::Buffer() = default;
Buffer::~Buffer() {
  const CallScope scope;
  impl_.reset();
}
Buffer::Buffer(Buffer&& other) noexcept
    : impl_(std::move(other.impl_)), size_(std::exchange(other.size_, 0)) {}
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  const CallScope scope;
  impl_ = std::move(other.impl_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void Buffer::destroy() {
  if (!impl_) return;
  const CallScope scope;
  impl_->buffer.Destroy();
  impl_.reset();
  size_ = 0;
}

BindGroup::BindGroup() = default;
BindGroup::~BindGroup() {
  const CallScope scope;
  impl_.reset();
}
BindGroup::BindGroup(BindGroup&&) noexcept = default;
BindGroup& BindGroup::operator=(BindGroup&& other) noexcept {
  const CallScope scope;
  impl_ = std::move(other.impl_);
  return *this;
}

Device::Device(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Device::~Device() {
  const CallScope scope;
  core_.reset();
}

const AdapterInfo& Device::info() const { return core_->info; }
const Caps& Device::caps() const { return core_->caps; }
const std::string& Device::cache_folder() const { return core_->cache_folder; }
void Device::set_measured(const MeasuredSpeed& speed) { core_->caps.measured = speed; }
bool Device::lost() const { return core_->lost; }

void Device::force_loss() {
  const CallScope scope;
  core_->device.ForceLoss(wgpu::DeviceLostReason::Unknown, "the loss was forced by a test");
}

void Device::force_error(std::string_view text) {
  core_->device.InjectError(wgpu::ErrorType::Validation, text);
}

CacheStats Device::stats() const {
  return {.memory_hits = core_->memory_hits,
          .pipelines_created = core_->pipelines_created,
          .shaders_translated = core_->disk.shaders_translated(),
          .disk_hits = core_->disk.hits(),
          .disk_misses = core_->disk.misses(),
          .disk_stores = core_->disk.stores()};
}

namespace {

// A software device promises more memory than there is and dies when it is touched, so we count.
void need_room(const Core& core, uint64_t bytes, std::string_view label) {
  const uint64_t limit = core.info.caps.max_buffer_bytes;
  if (bytes > limit) {
    fail(ErrorKind::out_of_memory,
         "the buffer '{}' needs {} bytes, but a buffer of the device '{}' has at most {}", label, bytes,
         core.info.name, limit);
  }
  const uint64_t used = core.memory->bytes;
  if (core.budget != 0 && bytes > core.budget - std::min(used, core.budget)) {
    fail(ErrorKind::out_of_memory,
         "the buffer '{}' needs {} bytes, but of the {} bytes that the device '{}' may use, {} are in use",
         label, bytes, core.budget, core.info.name, used);
  }
}

}  // namespace

Buffer Device::create_buffer(BufferUse use, uint64_t bytes, std::string_view label) {
  Call call(*core_);
  need_room(*core_, bytes, label);
  wgpu::BufferDescriptor descriptor;
  descriptor.label = label;
  descriptor.usage = usage_of(use);
  descriptor.size = std::max<uint64_t>(4, (bytes + 3) / 4 * 4);

  Buffer buffer;
  buffer.impl_ = std::make_unique<Buffer::Impl>(core_->device.CreateBuffer(&descriptor), label,
                                                descriptor.size, core_->memory);
  buffer.size_ = descriptor.size;
  if (std::optional<Error> error = call.take_error()) {
    throw error->within(formatted("the buffer '{}' of {} bytes", label, descriptor.size));
  }
  call.check();
  return buffer;
}

void Device::write(const Buffer& to, uint64_t offset, std::span<const std::byte> bytes) {
  Call call(*core_);
  const Buffer::Impl& target = checked(to, offset, bytes.size(), "writing");
  need_multiple_of_4(offset, "offset of a write", to);

  const uint64_t whole_words = bytes.size() / 4 * 4;
  for (uint64_t done = 0; done < whole_words;) {
    const uint64_t piece = std::min(whole_words - done, kUploadPiece);
    core_->queue.WriteBuffer(target.buffer, offset + done, bytes.data() + done, piece);
    done += piece;
    core_->bytes_in_upload += piece;
    if (core_->bytes_in_upload > kMaxBytesInUpload) core_->wait(*core_->end_of_uploads());
  }
  if (whole_words < bytes.size()) {
    std::array<std::byte, 4> tail{};
    std::ranges::copy(bytes.subspan(whole_words), tail.begin());
    core_->queue.WriteBuffer(target.buffer, offset + whole_words, tail.data(), tail.size());
  }
  call.check();
}

std::optional<Ticket> Device::upload_backlog() {
  const Call call(*core_);
  if (core_->bytes_in_upload <= kMaxBytesInUpload / 2) return std::nullopt;
  Ticket ticket;
  ticket.impl_ = std::make_unique<Ticket::Impl>(core_, core_->end_of_uploads());
  return ticket;
}

void Device::clear(const Buffer& buffer, uint64_t offset, uint64_t bytes) {
  Call call(*core_);
  const Buffer::Impl& target = checked(buffer, offset, bytes, "clearing");
  need_multiple_of_4(offset, "offset of a clear", buffer);
  need_multiple_of_4(bytes, "length of a clear", buffer);
  if (bytes == 0) return;
  const wgpu::CommandEncoder encoder = core_->device.CreateCommandEncoder();
  encoder.ClearBuffer(target.buffer, offset, bytes);
  const wgpu::CommandBuffer commands = encoder.Finish();
  core_->queue.Submit(1, &commands);
  call.check();
}

Readback Device::read_later(const Buffer& from, uint64_t offset, uint64_t bytes) {
  Readback staging = readback(bytes);
  const Copy copy{.from = &from, .from_offset = offset, .bytes = bytes};
  submit({.after = {&copy, 1}, .readback = &staging});
  return staging;
}

void Device::read(const Buffer& from, uint64_t offset, std::span<std::byte> bytes) {
  const CallScope scope;
  checked(from, offset, bytes.size(), "reading");
  if (bytes.empty()) return;
  // In pieces: the staging of a large read would stay in the pool.
  for (uint64_t done = 0; done < bytes.size();) {
    const uint64_t begin = (offset + done) / 4 * 4;
    const uint64_t piece = std::min(bytes.size() - done, kUploadPiece);
    const uint64_t end = (offset + done + piece + 3) / 4 * 4;
    std::memcpy(bytes.data() + done,
                read_later(from, begin, end - begin).bytes().data() + (offset + done - begin), piece);
    done += piece;
  }
}

BindGroup Device::bind_group(const Pipeline& pipeline, std::span<const BufferRange> ranges) {
  Call call(*core_);
  if (!pipeline) fail(ErrorKind::invalid_argument, "a bind group needs a pipeline, but got an empty handle");
  const Pipeline::Impl& target = *pipeline.impl();
  if (ranges.size() != target.request.bindings.size()) {
    fail(ErrorKind::invalid_argument, "the kernel '{}' has {} bindings, but {} buffers were given",
         target.request.label, target.request.bindings.size(), ranges.size());
  }
  std::vector<wgpu::BindGroupEntry> entries(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].buffer == nullptr || !*ranges[i].buffer) {
      fail(ErrorKind::invalid_argument, "binding {} of the kernel '{}' got an empty buffer handle", i,
           target.request.label);
    }
    entries[i].binding = static_cast<uint32_t>(i);
    entries[i].buffer = ranges[i].buffer->impl()->buffer;
    entries[i].offset = ranges[i].offset;
    entries[i].size = ranges[i].bytes == 0 ? wgpu::kWholeSize : ranges[i].bytes;
  }
  wgpu::BindGroupDescriptor descriptor;
  descriptor.label = std::string_view(target.request.label);
  descriptor.layout = target.layout;
  descriptor.entryCount = entries.size();
  descriptor.entries = entries.data();

  BindGroup group;
  group.impl_ = std::make_unique<BindGroup::Impl>(core_->device.CreateBindGroup(&descriptor));
  if (std::optional<Error> error = call.take_error()) {
    throw error->within(formatted("binding the buffers of the kernel '{}'", target.request.label));
  }
  call.check();
  return group;
}

void Device::poll_later(std::weak_ptr<Polled> work) {
  const std::lock_guard lock(polled_mutex_);
  polled_.push_back(std::move(work));
}

bool Device::poll() {
  std::vector<std::weak_ptr<Polled>> all;
  {
    const std::lock_guard lock(polled_mutex_);
    all.swap(polled_);
  }
  // What they call may use the device, add more, and throw: the first error is for the caller.
  std::exception_ptr thrown;
  std::erase_if(all, [&](const std::weak_ptr<Polled>& weak) {
    const std::shared_ptr<Polled> work = weak.lock();
    try {
      return !work || work->poll();
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
      return true;
    }
  });
  const std::lock_guard lock(polled_mutex_);
  polled_.insert(polled_.end(), all.begin(), all.end());
  if (thrown) std::rethrow_exception(thrown);
  return !polled_.empty();
}

MemoryUse Device::memory() const { return {core_->memory->bytes, core_->memory->most, core_->budget}; }

}  // namespace rlx::gpu
