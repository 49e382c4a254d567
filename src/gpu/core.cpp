#include "gpu/core.h"
#include "base/format.h"

#include <chrono>
#include <thread>

namespace rlx::gpu {

namespace {

thread_local Call* innermost_call = nullptr;

// To sleep and be woken by another core takes longer than a small run, so spin for a while before blocking.
// One small dispatch and its readback on lavapipe, 2 cores: 45 to 50 us against 82 to 99 us on a quiet
// machine. On a busy one both take the same 26 us, since the driver's thread then shares our core and the
// yield hands it over; without the yield the spin held that thread up (p90 90 us against 30 us).
constexpr std::chrono::microseconds kSpin{60};
// How often a blocked wait checks whether the device is lost, in case a driver does not wake it.
constexpr uint64_t kWaitSliceNs = 100'000'000;

ErrorKind kind_of(wgpu::ErrorType type) {
  return type == wgpu::ErrorType::OutOfMemory ? ErrorKind::out_of_memory : ErrorKind::internal;
}

std::string_view without_trailing_newlines(std::string_view text) {
  const size_t last = text.find_last_not_of("\n ");
  return last == text.npos ? std::string_view() : text.substr(0, last + 1);
}

}  // namespace

// Destroying the device waits for Dawn's worker threads and calls back about the loss: both need the members
// below.
Core::~Core() {
  free_staging.clear();
  pipelines.clear();
  nothing.uniform = nothing.read = nothing.written = nullptr;
  if (device) device.Destroy();
  queue = nullptr;
  device = nullptr;
}

bool Core::poll(wgpu::Future future) { return instance.WaitAny(future, 0) == wgpu::WaitStatus::Success; }

void Core::wait(wgpu::Future future) {
  const auto spin_end = std::chrono::steady_clock::now() + kSpin;
  do {
    if (poll(future)) return;
    std::this_thread::yield();  // the driver's own thread may share our core
  } while (std::chrono::steady_clock::now() < spin_end);

  for (;;) {
    const wgpu::WaitStatus status = instance.WaitAny(future, kWaitSliceNs);
    if (status == wgpu::WaitStatus::Success) return;
    if (lost && !poll(future)) fail_lost();
    if (status == wgpu::WaitStatus::Error)
      fail(ErrorKind::internal, "waiting for the device '{}' failed", info.name);
  }
}

std::shared_ptr<QueueEnd> Core::end_of_queue() {
  auto completion = std::make_shared<QueueEnd>();
  completion->future = queue.OnSubmittedWorkDone(
      wgpu::CallbackMode::AllowSpontaneous,
      [](wgpu::QueueWorkDoneStatus status, wgpu::StringView, std::shared_ptr<QueueEnd>* share) {
        const CallScope scope;
        (*share)->failed = status != wgpu::QueueWorkDoneStatus::Success;
        (*share)->done = true;
        delete share;
      },
      new std::shared_ptr(completion));
  return completion;
}

std::shared_ptr<QueueEnd> Core::end_of_uploads() {
  queue.Submit(0, nullptr);
  bytes_in_upload = 0;
  return end_of_queue();
}

void Core::wait(QueueEnd& completion) {
  if (!completion.done) wait(completion.future);
  // Another thread's wait may be the one that runs our callback, and may not have finished it.
  while (!completion.done && !lost) std::this_thread::yield();
  if (completion.done && !completion.failed) return;
  if (lost) fail_lost();
  fail(ErrorKind::internal, "the work on the device '{}' was not completed", info.name);
}

void Core::report(ProgressStage stage, int64_t done, int64_t total) {
  if (!progress) return;
  const std::lock_guard lock(progress_mutex);
  progress({stage, done, total});
}

void Core::note_loss(std::string reason) {
  {
    const std::lock_guard lock(error_mutex);
    // What follows the first line is about Dawn's own calls.
    if (lost_reason.empty()) lost_reason = reason.substr(0, reason.find('\n'));
  }
  lost = true;
}

void Core::note_error(wgpu::ErrorType type, std::string_view message) {
  const Error error(kind_of(type),
                    formatted("device '{}': {}", info.name, without_trailing_newlines(message)));
  for (Call* call = innermost_call; call != nullptr; call = call->outer_) {
    if (&call->core_ != this) continue;
    if (!call->error_) call->error_ = error;
    return;
  }
  const std::lock_guard lock(error_mutex);
  if (!late_error) late_error = last_work ? error.within(*last_work) : error;
}

std::optional<Error> Core::take_late_error() {
  const std::lock_guard lock(error_mutex);
  return std::exchange(late_error, std::nullopt);
}

void Core::fail_lost() const {
  const std::lock_guard lock(error_mutex);
  fail(ErrorKind::device_lost, "the device '{}' was lost: {}", info.name,
       lost_reason.empty() ? "no reason was given" : lost_reason);
}

Call::Call(Core& core) : core_(core), outer_(innermost_call) {
  if (core.lost) core.fail_lost();
  innermost_call = this;
}

Call::~Call() { innermost_call = outer_; }

void Call::check() {
  if (core_.lost) core_.fail_lost();
  if (std::optional<Error> error = take_error()) throw *error;
}

std::optional<Error> Call::take_error() {
  if (error_) return std::exchange(error_, std::nullopt);
  return core_.take_late_error();
}

}  // namespace rlx::gpu
