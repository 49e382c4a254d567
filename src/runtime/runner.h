// The submits of a run. Most plans need one. Where a plan has instructions, the host reads a word after some
// submits (a condition, a number of iterations, a size) and decides what comes next.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/task.h"
#include "gpu/device.h"
#include "runtime/device_plan.h"

namespace rlx {

class Runner {
 public:
  // Who makes the submits.
  class Submitter {
   public:
    // `commands` are positions in plan.commands().
    virtual void submit(std::span<const size_t> commands, const gpu::Work& work) = 0;
    // Adds to the last submit what comes after its commands.
    virtual void add_outputs(gpu::Work& work) = 0;

   protected:
    ~Submitter() = default;
  };

  // Whether a run submits plan.commands() and needs to wait for nothing before.
  static bool waits_for_nothing(const gpu::Device& device, const DevicePlan& plan) {
    return !plan.has_segments() && !device.is_first_run(plan.commands());
  }

  // `before` are copies that come first of all. All of these must outlive the runner.
  Runner(gpu::Device& device, DevicePlan& plan, std::span<const gpu::Copy> before, Submitter& submitter)
      : device_(device), plan_(plan), submitter_(submitter), before_(before) {}

  // Until everything has been submitted.
  Task<> run();

 private:
  struct Loop {
    int64_t made = 0;
    int64_t trips = 0;
    int64_t unread = 0;  // iterations that can be made before the condition is read again
    int64_t next_unread = 0;
  };

  // Returns the storage of a word that the instruction needs, if it does.
  std::optional<int32_t> execute(const Instruction& instruction);
  Task<int32_t> read(int32_t storage);
  void take_word(int32_t word);
  void add(DevicePlan::Range range);
  Task<> submit_pending(gpu::Work work);
  Task<> submit_in_pieces(gpu::Work work);

  gpu::Device& device_;
  DevicePlan& plan_;
  Submitter& submitter_;
  size_t work_ = 0;  // the node, of plan_.work()
  size_t at_ = 0;    // in its code
  std::vector<Loop> loops_;
  std::vector<size_t> pending_;
  std::vector<gpu::DispatchCommand> commands_;  // of the pending ones
  std::span<const gpu::Copy> before_;           // of the next submit
  std::optional<gpu::Ticket> in_flight_;        // the last part of a loop
};

}  // namespace rlx
