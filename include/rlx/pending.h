// Something that is under way: a run, a compilation, the opening of a device.
//
//   rlx::Run run = exe.run_async({{"x", x}});
//   run.then([&] { show(run.get()); });
//   while (device.poll()) draw_a_frame();
//
// It needs no thread, and nothing calls back out of nowhere: it goes on in ready(), in get() and in
// Device::poll(), and what was given to then() is called by whichever of them finds that it has ended.
#pragma once

#include <functional>
#include <memory>

#include "rlx/export.h"
#include "rlx/progress.h"

RLX_EXPORT_BEGIN
namespace rlx {

template <class T>
class PendingWork;

// Dropping one is safe: a run goes on, anything else ends. One thread at a time may use it; cancel() may be
// called by any.
template <class T>
class Pending {
 public:
  Pending();
  explicit Pending(std::shared_ptr<PendingWork<T>> work);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  // Goes on as far as possible without waiting; true if get() would not block.
  bool ready();
  // Waits. Once: it throws the error if there was one.
  T get();
  // Calls it once, when ready() is true, also after an error or a cancel(); at once if it is true already. A
  // second call takes the place of the first. Not called when the object is dropped before. What it throws
  // passes through the call that called it, as it is.
  void then(std::function<void()> call);
  // Ends it where it is, unless it has ended: get() throws ErrorKind::cancelled. What the device has been
  // given it finishes, but a run makes no further submit; its states are as far as it came.
  void cancel();
  // How far the step is that it waits for, where that can be counted: pipelines made, and of how many.
  ProgressReport progress() const;

 private:
  std::shared_ptr<PendingWork<T>> work_;
};

}  // namespace rlx
RLX_EXPORT_END
