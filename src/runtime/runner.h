// A run that goes on in several submits: after some of them the host reads a word (a condition, a number of
// iterations, a size) and decides what comes next. Nothing waits here unless it is told to.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device.h"
#include "runtime/device_plan.h"

namespace rlx {

class Runner {
 public:
  // Submits the commands, given by their positions in plan.commands().
  using Submit = std::function<void(std::span<const size_t> commands, const gpu::Work& work)>;
  // Makes the last submit: that of `work`, with what comes after the commands.
  using Finish = std::function<void(std::span<const size_t> commands, gpu::Work work)>;

  // `before` are copies that come first of all.
  Runner(std::shared_ptr<gpu::Device> device, std::shared_ptr<DevicePlan> plan, std::vector<gpu::Copy> before,
         Submit submit, Finish finish);

  // Goes on as far as possible, waiting for words if `wait`. True once everything has been submitted. After
  // an error, which is thrown once more by each further call, the run has ended.
  bool advance(bool wait);

 private:
  struct Loop {
    int64_t made = 0;
    int64_t trips = 0;
    int64_t unread = 0;  // iterations that can be made before the condition is read again
    int64_t next_unread = 0;
  };

  // Goes on until a word is needed; true at the end.
  bool step();
  void execute(const Instruction& instruction);
  void let_go();
  void take_word(int32_t word);
  void add(DevicePlan::Range range);
  void request(int32_t word);
  void list_pending();
  void submit_pending(gpu::Readback* readback);

  std::mutex mutex_;
  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<DevicePlan> plan_;
  Submit submit_;
  Finish finish_;
  size_t work_ = 0;  // the node, of plan_->work()
  size_t at_ = 0;    // in its code
  std::vector<Loop> loops_;
  std::vector<size_t> pending_;
  std::vector<gpu::DispatchCommand> commands_;  // of the pending ones
  gpu::Readback word_;
  std::vector<gpu::Copy> copies_;
  std::vector<gpu::Copy> before_;  // the first submit
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace rlx
