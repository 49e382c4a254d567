#include "rlx/pending.h"

#include "base/border.h"
#include "rlx/executable.h"
#include "runtime/pending_work.h"

namespace rlx {
namespace {

template <class T>
PendingWork<T>& work_of(const std::shared_ptr<PendingWork<T>>& work) {
  if (!work) {
    fail(ErrorKind::invalid_argument,
         "what was pending was never started, or its result has already been taken");
  }
  return *work;
}

}  // namespace

template <class T>
Pending<T>::Pending() = default;
template <class T>
Pending<T>::Pending(std::shared_ptr<PendingWork<T>> work) : work_(std::move(work)) {}
template <class T>
Pending<T>::Pending(Pending&&) noexcept = default;
template <class T>
Pending<T>& Pending<T>::operator=(Pending&&) noexcept = default;
template <class T>
Pending<T>::~Pending() = default;

template <class T>
bool Pending<T>::ready() {
  const std::shared_ptr<PendingWork<T>> work = work_;  // what is called may drop it
  return !work || work->advance(false);
}

template <class T>
T Pending<T>::get() {
  const std::shared_ptr<PendingWork<T>> waited = work_;  // what is called may drop it
  work_of(waited).advance(true);  // calls back before the result is gone; the callback's errors are its own
  const std::shared_ptr<PendingWork<T>> work = std::move(work_);
  try {
    return work_of(work).take();
  } catch (...) {
    throw_as_error("waiting for something that is under way");
  }
}

template <class T>
void Pending<T>::then(std::function<void()> call) {
  PendingWork<T>& work = work_of(work_);
  work.then(std::move(call));
  if (gpu::Device* const device = work.device()) device->poll_later(work_);
  ready();
}

template <class T>
void Pending<T>::cancel() {
  if (work_) work_->cancel();
}

template <class T>
ProgressReport Pending<T>::progress() const {
  return work_ ? work_->progress() : ProgressReport{};
}

template class Pending<NamedTensors>;
template class Pending<Executable>;
template class Pending<Device>;

}  // namespace rlx
