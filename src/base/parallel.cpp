#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace rlx {

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  grain = std::max<int64_t>(grain, 1);
  const int64_t blocks = (count + grain - 1) / grain;
  const int64_t workers = std::min<int64_t>(blocks, std::max(1u, std::thread::hardware_concurrency()));
  if (workers <= 1) {
    if (count > 0) body(0, count);
    return;
  }
  std::atomic<int64_t> next = 0;
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    for (int64_t block; (block = next++) < blocks;) {
      try {
        body(block * grain, std::min(count, (block + 1) * grain));
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < workers; ++i) threads.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace rlx
