// Work that waits in between, written as if it did not: a coroutine.
//
//   Task<int> first_word(gpu::Device& device, const gpu::Buffer& from) {
//     gpu::Readback word = device.read_later(from, 0, 4);
//     co_await word;                    // a Completion
//     co_return number_in(word.bytes());
//   }
//
// Nothing runs by itself and no thread is needed: whoever holds the outermost task pushes it on. The blocking
// form of a function is blocking(task). Dropping a task ends it where it waits.
#pragma once

#include <atomic>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/completion.h"
#include "base/fail.h"

namespace rlx {

template <class T = void>
class Task;

// Where a task and those that it waits for stand, seen from the outermost.
struct TaskPosition {
  std::coroutine_handle<> innermost = nullptr;  // to be resumed
  Completion* awaited = nullptr;                // that it waits for
  bool blocks = false;                          // it waits for completions on the spot
  const std::atomic<bool>* cancelled = nullptr;
};

namespace detail {

// Keeps what a coroutine returns.
template <class T>
struct TaskResult {
  std::optional<T> value = {};
  void return_value(T result) { value = std::move(result); }
  T take() { return std::move(*value); }
};
template <>
struct TaskResult<void> {
  void return_void() {}
  void take() {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::TaskResult<T> {
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    // Goes on with the task that waits for this one.
    auto final_suspend() noexcept {
      struct Return {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(Handle self) noexcept {
          const std::coroutine_handle<> outer = self.promise().outer;
          return outer ? outer : std::noop_coroutine();
        }
        void await_resume() noexcept {}
      };
      return Return{};
    }
    void unhandled_exception() { error = std::current_exception(); }

    auto await_transform(Completion& completion) {
      struct Wait {
        Completion& completion;
        TaskPosition& position;
        bool await_ready() { return position.blocks || completion.ready(); }
        void await_suspend(std::coroutine_handle<> self) {
          position.innermost = self;
          position.awaited = &completion;
        }
        void await_resume() {
          completion.wait();
          if (position.cancelled && *position.cancelled) fail(ErrorKind::cancelled, "it was cancelled");
        }
      };
      return Wait{completion, *position};
    }
    template <class U>
    auto await_transform(Task<U>&& task) {
      struct Call {
        Task<U> task;
        TaskPosition& position;
        bool await_ready() { return false; }
        std::coroutine_handle<> await_suspend(Handle self) {
          task.handle_.promise().outer = self;
          task.handle_.promise().position = &position;
          return task.handle_;
        }
        U await_resume() { return task.take(); }
      };
      return Call{std::move(task), *position};
    }

    std::coroutine_handle<> outer = nullptr;
    TaskPosition* position = nullptr;
    std::exception_ptr error;
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  explicit operator bool() const { return handle_ != nullptr; }

  // For the outermost one: goes on as far as it can, or to the end if it is to block; true at the end. The
  // position must be the same in all calls.
  bool advance(TaskPosition& position, bool block) {
    position.blocks = block;
    if (!handle_.promise().position) {
      handle_.promise().position = &position;
      position.innermost = handle_;
    }
    if (handle_.done()) return true;
    if (position.awaited && !block && !position.awaited->ready()) return false;
    position.awaited = nullptr;
    position.innermost.resume();  // to the end, or to a completion that is not ready
    return handle_.done();
  }
  // At the end: what it returned or threw.
  T take() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return handle_.promise().take();
  }

 private:
  template <class U>
  friend class Task;
  using Handle = std::coroutine_handle<promise_type>;
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_ = nullptr;
};

template <class T>
T blocking(Task<T> task) {
  TaskPosition position;
  task.advance(position, true);
  return task.take();
}

}  // namespace rlx
