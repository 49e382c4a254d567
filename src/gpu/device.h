// An open GPU: buffers, pipelines, submits and what comes back from them.
//
// What takes time is a Completion: a Readback, a Ticket, a PipelineBatch, a DeviceOpening. Functions that
// wait for one are few and do nothing else.
//
// Every function here may be called from any thread. Handles (Buffer, Pipeline, BindGroup, Readback, Ticket)
// keep alive what they need, so they and the Device may be destroyed in any order; several Devices may live
// in one process.
//
// Errors arrive as rlx::Error from the call that caused them. After the device is lost, every call, and every
// wait in progress, throws ErrorKind::device_lost with the reason; nothing hangs. To continue, open a new
// Device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/completion.h"
#include "base/limits.h"
#include "gpu/adapter.h"
#include "gpu/call_scope.h"
#include "rlx/device.h"

namespace rlx::gpu {

struct Core;  // the WebGPU objects, in core.h

enum class BufferUse {
  storage,  // bound to kernels, written by the host, copied in both directions
  uniform,  // parameters: bound as uniform, written by the host or by a copy
};

// Memory on the device. Work that was submitted keeps its buffers until it is done, and a bind group keeps
// those it names: letting go of the handle is safe at any time.
class Buffer {
 public:
  Buffer();
  ~Buffer();
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;

  explicit operator bool() const { return impl_ != nullptr; }
  uint64_t size() const { return size_; }  // a multiple of 4, at least what was asked for

  // Lets go of the memory itself, which bind groups would keep otherwise; they can no longer be used. Work
  // that was submitted is done first.
  void destroy();

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  friend class Device;
  std::unique_ptr<Impl> impl_;
  uint64_t size_ = 0;
};

// A compiled kernel; a cheap handle whose copies share it.
class Pipeline {
 public:
  explicit operator bool() const { return impl_ != nullptr; }
  bool operator==(const Pipeline&) const = default;
  const std::string& label() const;

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  friend class Device;
  friend class PipelineBatch;
  std::shared_ptr<const Impl> impl_;
};

// The buffers of one dispatch, in the order of the pipeline's bindings.
class BindGroup {
 public:
  BindGroup();
  ~BindGroup();
  BindGroup(BindGroup&&) noexcept;
  BindGroup& operator=(BindGroup&&) noexcept;

  explicit operator bool() const { return impl_ != nullptr; }

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  friend class Device;
  std::unique_ptr<Impl> impl_;
};

enum class BindingKind : uint8_t { uniform, read, read_write };

struct PipelineRequest {
  std::string label = {};  // for messages and debuggers; not part of the cache key
  // A complete module whose compute entry point is `main`. A line `//# FILE LINE` says where the next line
  // comes from: errors then name that place.
  std::string wgsl = {};
  std::vector<BindingKind> bindings = {};  // the index is the @binding number in @group(0)
};

struct BufferRange {
  const Buffer* buffer = nullptr;
  uint64_t offset = 0;  // a multiple of kBindingAlignment
  uint64_t bytes = 0;   // a multiple of 4; 0 means the rest of the buffer
};

struct DispatchCommand {
  const Pipeline* pipeline = nullptr;
  const BindGroup* group = nullptr;
  uint32_t x = 1, y = 1, z = 1;  // workgroups; a zero dispatches nothing
};

// Offsets and length are multiples of 4.
struct Copy {
  const Buffer* from = nullptr;  // null: zeros
  uint64_t from_offset = 0;
  const Buffer* to = nullptr;  // null: into the readback of the same submit
  uint64_t to_offset = 0;
  uint64_t bytes = 0;
};

// Host-visible memory from the device's pool, into which one submit copies results. Destroying it returns the
// memory, finished or not.
class Readback final : public Completion {
 public:
  Readback();
  ~Readback() override;
  Readback(Readback&&) noexcept;
  Readback& operator=(Readback&&) noexcept;

  explicit operator bool() const { return impl_ != nullptr; }
  uint64_t size() const { return size_; }

  // The submit that was given this readback is done, or has failed, which wait() throws.
  bool ready() override;
  void wait() override;
  // Waits; the bytes stay valid as long as the handle.
  std::span<const std::byte> bytes();

  struct Impl;

 private:
  friend class Device;
  std::unique_ptr<Impl> impl_;
  uint64_t size_ = 0;
};

// The end of all work that was submitted before the ticket was taken.
class Ticket final : public Completion {
 public:
  Ticket();
  ~Ticket() override;
  Ticket(Ticket&&) noexcept;
  Ticket& operator=(Ticket&&) noexcept;

  bool ready() override;
  void wait() override;  // throws if the device was lost before the work was done

  struct Impl;

 private:
  friend class Device;
  std::unique_ptr<Impl> impl_;
};

// Pipelines that are made on threads of the device, or without any (DeviceOptions::worker_threads): then each
// call of ready() makes one. wait() helps. Those that are still to be made when it is dropped are not.
class PipelineBatch final : public Completion {
 public:
  PipelineBatch();
  ~PipelineBatch() override;
  PipelineBatch(PipelineBatch&&) noexcept;
  PipelineBatch& operator=(PipelineBatch&&) noexcept;

  bool ready() override;
  // ErrorKind::invalid_argument with the label, the compiler's message and its line when the WGSL is wrong.
  void wait() override;
  ProgressReport progress() const override;
  // After an error: the number of the request that was wrong.
  size_t failed() const;
  // Waits; in the order of the requests.
  std::vector<Pipeline> take();

  struct Impl;

 private:
  friend class Device;
  std::unique_ptr<Impl> impl_;
};

class Device;

class DeviceOpening final : public Completion {
 public:
  ~DeviceOpening() override;
  DeviceOpening(DeviceOpening&&) noexcept;
  DeviceOpening& operator=(DeviceOpening&&) noexcept;

  bool ready() override;
  void wait() override;
  std::shared_ptr<Device> take();  // waits; once

  struct Impl;
  explicit DeviceOpening(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// One submit, in this order: copies, dispatches in one compute pass, copies. Any part may be empty.
// Dispatches see the writes of those before them. The spans are read during the call only.
struct Work {
  std::span<const Copy> before = {};
  std::span<const DispatchCommand> dispatches = {};
  std::span<const Copy> after = {};
  Readback* readback = nullptr;  // filled by the copies whose `to` is null
  // For errors: "the graph 'bert'". Those that arrive later name the last one.
  std::shared_ptr<const std::string> what = nullptr;
};

// The device's clock around one dispatch, in nanoseconds from an arbitrary start.
struct DispatchTime {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

struct CacheStats {
  uint64_t memory_hits = 0;         // requests answered with a pipeline that already existed
  uint64_t pipelines_created = 0;   // pipelines made by the driver, from source or from the disk cache
  uint64_t shaders_translated = 0;  // WGSL that Tint had to translate: the disk cache did not have it
  uint64_t disk_hits = 0;           // entries read from disk
  uint64_t disk_misses = 0;         // entries looked for but not found
  uint64_t disk_stores = 0;         // entries written
};

class Device {
 public:
  // ErrorKind::unsupported, with the adapters that exist, when none fits the options.
  static DeviceOpening start_opening(const DeviceOptions& options = {});
  static std::shared_ptr<Device> open(const DeviceOptions& options = {});
  // A device that reads kernels and computes nothing, with every extension of WGSL. It needs no driver. Null
  // if Dawn has none.
  static std::shared_ptr<Device> open_for_checks();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const AdapterInfo& info() const;
  const Caps& caps() const;  // the adapter's, with DeviceOptions::limits applied
  // For files that speed up later starts (DeviceOptions::cache_dir); "" if there is to be none.
  const std::string& cache_folder() const;
  // Before anybody else knows the device: what caps().measured is from now on.
  void set_measured(const MeasuredSpeed& speed);

  // New memory reads as zeros. The size is rounded up to a multiple of 4. ErrorKind::out_of_memory when the
  // device has no room, or no buffer of that size.
  Buffer create_buffer(BufferUse use, uint64_t bytes, std::string_view label);

  // Takes effect before any later submit, after any earlier one; the bytes are copied before the call
  // returns. The offset is a multiple of 4. A length that is not a multiple of 4 is padded with zero
  // bytes: the 1 to 3 bytes after the data become zero, so a tensor of such a size must own its padding.
  void write(const Buffer& to, uint64_t offset, std::span<const std::byte> bytes);
  // If much has been written that the device has not taken yet, the end of that: to be waited for before
  // more. (A single write of a lot waits by itself.)
  std::optional<Ticket> upload_backlog();
  // Zeros, in the same order as a write; offset and length are multiples of 4.
  void clear(const Buffer& buffer, uint64_t offset, uint64_t bytes);
  // What the bytes are after all earlier work; offset and length are multiples of 4.
  Readback read_later(const Buffer& from, uint64_t offset, uint64_t bytes);
  // The same, any offset and length, and waits.
  void read(const Buffer& from, uint64_t offset, std::span<std::byte> bytes);

  // Those whose text and bindings have not been seen before are compiled in parallel.
  PipelineBatch start_pipelines(std::vector<PipelineRequest> requests);
  std::vector<Pipeline> pipelines(std::vector<PipelineRequest> requests);
  Pipeline pipeline(PipelineRequest request);
  // The same errors about the WGSL itself, without making a pipeline. (The device's limits are not looked
  // at.)
  void check_wgsl(const PipelineRequest& request);
  // From now on pipelines are described only: what needs them can be bound, and submits leave out its
  // dispatches. For looks at how a driver compiles kernels, each by itself.
  void describe_pipelines_only();
  // Makes a pipeline, also if pipelines are described only, and forgets it. The same errors as of pipeline().
  void compile_alone(const PipelineRequest& request);

  BindGroup bind_group(const Pipeline& pipeline, std::span<const BufferRange> ranges);

  // At least `bytes` of host-visible memory; reused memory when there is some.
  Readback readback(uint64_t bytes);

  void submit(const Work& work);
  Ticket ticket();

  // Whether somebody listens (DeviceOptions::progress) and one of the pipelines has not run before: many
  // drivers compile it then.
  bool is_first_run(std::span<const DispatchCommand> dispatches) const;
  // The dispatch is about to run; whether its pipeline has not run before.
  bool note_first_run(const DispatchCommand& dispatch) const;
  void report(ProgressStage stage, int64_t done, int64_t total) const;

  // Pushed on by poll() from now on, until it has ended or nobody else holds it.
  void poll_later(std::weak_ptr<Polled> work);
  // True if some of them are still under way.
  bool poll();

  // Like submit(), but with a pass for each dispatch and a timestamp at both ends of it; waits for the end.
  // Each pass costs time, so the sum is more than the plain submit takes. Needs caps().timestamps.
  std::vector<DispatchTime> submit_timed(const Work& work);

  bool lost() const;
  void force_loss();                        // for tests of recovery
  void force_error(std::string_view text);  // outside of any call: for tests of errors that arrive later

  CacheStats stats() const;
  MemoryUse memory() const;

 private:
  friend class DeviceOpening;
  explicit Device(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
  std::mutex polled_mutex_;
  std::vector<std::weak_ptr<Polled>> polled_;
};

}  // namespace rlx::gpu
