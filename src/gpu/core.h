// Internal to src/gpu: the WebGPU objects of one open device, and what its handles hold.
#pragma once

#include <webgpu/webgpu_cpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fail.h"
#include "gpu/device.h"
#include "gpu/disk_cache.h"

namespace rlx::gpu {

// Bytes in the buffers of a device. Separate from Core, since a buffer may outlive it.
struct MemoryCount {
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> most = 0;

  void add(uint64_t more) {
    const uint64_t now = bytes += more;
    for (uint64_t before = most; now > before && !most.compare_exchange_weak(before, now);) {
    }
  }
};

struct Buffer::Impl {
  Impl(wgpu::Buffer buffer, std::string_view label, uint64_t bytes, std::shared_ptr<MemoryCount> count)
      : buffer(std::move(buffer)), label(label), bytes(bytes), count(std::move(count)) {
    this->count->add(bytes);
  }
  ~Impl() { count->bytes -= bytes; }
  Impl(const Impl&) = delete;

  wgpu::Buffer buffer;
  std::string label;
  uint64_t bytes;
  std::shared_ptr<MemoryCount> count;
};

struct BindGroup::Impl {
  wgpu::BindGroup group;
};

struct Pipeline::Impl {
  PipelineRequest request;  // the whole of it: the cache compares contents, not only hashes
  wgpu::ComputePipeline pipeline;
  wgpu::BindGroupLayout layout;
  mutable std::atomic<bool> has_run = false;  // while somebody listened
};

// Staging memory. Its future is of the kind that only WaitAny completes, so the callback runs on the thread
// that waits, or on the one that lets go, and needs no lock.
struct Readback::Impl {
  enum class State { idle, pending, mapped, failed };

  std::shared_ptr<Core> core;  // set while it is out of the pool: the pool is part of Core
  wgpu::Buffer buffer;
  uint64_t capacity = 0;
  wgpu::Future future;
  State state = State::idle;
  std::string failure;
};

// The end of all work submitted so far. Shared with Dawn's callback, so that a waiter may give up before it
// comes.
struct QueueEnd {
  wgpu::Future future;
  std::atomic<bool> done = false;
  std::atomic<bool> failed = false;
};

struct Ticket::Impl {
  std::shared_ptr<Core> core;
  std::shared_ptr<QueueEnd> end;
};

struct CachedPipeline {
  std::shared_ptr<const Pipeline::Impl> pipeline;
  uint64_t last_asked = 0;
};

struct Core {
  // The pipelines have a folder of their own in it.
  explicit Core(std::string folder)
      : cache_folder(std::move(folder)),
        disk(cache_folder.empty() ? std::filesystem::path()
                                  : std::filesystem::path(cache_folder) / "pipelines") {}
  ~Core();

  // True if the future is complete; its callback has then run.
  bool poll(wgpu::Future future);
  // Blocks; throws when the device is lost and the future will not complete.
  void wait(wgpu::Future future);

  std::shared_ptr<QueueEnd> end_of_queue();
  // The same, for what has been written; what is written from now on is counted anew.
  std::shared_ptr<QueueEnd> end_of_uploads();
  void wait(QueueEnd& end);

  // Tells the listener, if there is one.
  void report(ProgressStage stage, int64_t done, int64_t total);

  void note_loss(std::string reason);
  void note_error(wgpu::ErrorType type, std::string_view message);
  [[noreturn]] void fail_lost() const;
  std::optional<Error> take_late_error();

  wgpu::Instance instance;
  wgpu::Device device;
  wgpu::Queue queue;
  AdapterInfo info;
  Caps caps;

  std::shared_ptr<MemoryCount> memory = std::make_shared<MemoryCount>();
  uint64_t budget = 0;  // for all buffers; 0: none is known

  const std::string cache_folder;  // "": none
  DiskCache disk;                  // Dawn's worker threads use it until the device is destroyed

  // The driver compiles pipelines when they are first dispatched (warm_up.h).
  bool compiles_late = false;
  DeviceOptions side_options;  // of a SideDevice
  // What dispatches of nothing bind; made for the first.
  struct {
    std::once_flag once;
    std::mutex warning;  // of Dawn, of such a dispatch
    wgpu::Buffer uniform, read, written;
  } nothing;

  std::filesystem::path wgsl_dir;    // where modules are written, if anywhere
  bool worker_threads = true;        // make pipelines
  bool describes_pipelines = false;  // Device::describe_pipelines_only
  std::mutex pipelines_mutex;
  std::unordered_multimap<uint64_t, CachedPipeline> pipelines;  // by hash of the contents
  uint64_t pipeline_clock = 0;
  std::atomic<uint64_t> memory_hits = 0, pipelines_created = 0;

  ProgressListener progress;
  std::mutex progress_mutex;  // held while it is called

  std::mutex staging_mutex;
  std::vector<std::unique_ptr<Readback::Impl>> free_staging;

  std::atomic<uint64_t> bytes_in_upload = 0;  // written since somebody last waited for it

  std::atomic<bool> lost = false;
  mutable std::mutex error_mutex;  // guards those below
  std::string lost_reason;
  // Raised outside of any call. Whoever waits next throws it, or the next call.
  std::optional<Error> late_error;
  std::shared_ptr<const std::string> last_work;  // Work::what
};

// One call from outside. Dawn reports errors through a callback on the thread that made them; the call in
// progress there collects the first, and check() throws it.
class Call {
 public:
  explicit Call(Core& core);  // throws if the device is lost
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Throws what has been reported since the call began.
  void check();
  // The first error so far, which is then no longer thrown.
  std::optional<Error> take_error();

 private:
  friend struct Core;
  CallScope scope_;
  Core& core_;
  Call* outer_;
  std::optional<Error> error_;
};

}  // namespace rlx::gpu
