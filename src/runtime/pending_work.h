// The inside of a Pending.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "base/fail.h"
#include "base/task.h"
#include "gpu/device.h"
#include "rlx/pending.h"

namespace rlx {

template <class T>
class PendingWork : public Polled {
 public:
  // Goes on, to the end if it is to block; true at the end, an error's included, which take() throws.
  bool advance(bool block) {
    std::unique_lock lock(mutex_);
    return advance(std::move(lock), block);
  }
  bool poll() override {
    std::unique_lock lock(mutex_, std::try_to_lock);
    return lock && advance(std::move(lock), false);  // else somebody else pushes it on
  }
  T take() {
    advance(true);
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    return result();
  }
  void then(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
  }
  void cancel() {
    cancelled_ = true;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || ended_) return;  // whoever pushes it on sees it
    stop();
    end_cancelled();
  }
  ProgressReport progress() {
    const std::lock_guard lock(mutex_);
    if (const ProgressReport now = ended_ ? ProgressReport{} : step_progress(); now.total > 0) last_ = now;
    if (ended_ && !error_) last_.done = last_.total;
    return last_;
  }

  // The one that poll() is called on; null if there is none yet.
  virtual gpu::Device* device() { return nullptr; }

 protected:
  virtual const char* what() const = 0;  // "the run"
  virtual bool step(bool block) = 0;
  virtual T result() = 0;
  virtual void stop() {}
  virtual ProgressReport step_progress() const { return {}; }

  std::atomic<bool> cancelled_ = false;

 private:
  bool advance(std::unique_lock<std::mutex> lock, bool block) {
    if (!ended_) {
      try {
        ended_ = step(block);
      } catch (...) {
        error_ = std::current_exception();
        ended_ = true;
      }
      if (ended_ && cancelled_) end_cancelled();
    }
    const bool ended = ended_;
    const std::function<void()> call = ended ? std::exchange(call_, nullptr) : nullptr;
    lock.unlock();
    if (call) call();
    return ended;
  }
  void end_cancelled() {
    error_ = std::make_exception_ptr(Error(ErrorKind::cancelled, formatted("{} was cancelled", what())));
    ended_ = true;
  }

  std::mutex mutex_;  // of all below, and of the steps
  bool ended_ = false;
  std::exception_ptr error_;
  std::function<void()> call_;
  ProgressReport last_;  // that could be counted
};

}  // namespace rlx
