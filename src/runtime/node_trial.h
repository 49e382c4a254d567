// One node of a plan, run by itself with other kernels, on memory that the plan does not write.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/lower_node.h"
#include "runtime/device_plan.h"

namespace rlx {

// A problem that kernels were chosen for while a plan was lowered.
struct KernelProblem {
  std::string family, op, key;
  std::vector<size_t> works;   // the nodes with such a problem: their places in DevicePlan::work()
  std::vector<Candidate> all;  // by estimate, the fastest first
  Candidate taken;             // by estimate
  bool forced = false;
};
// Those of a plan that have a choice. Nodes with branches or loops in them are left out, since what they do
// depends on words that only a run knows.
std::vector<KernelProblem> kernel_problems(const DevicePlan& plan);

class NodeTrial {
 public:
  // Memory for the node's operands, with random values where the plan does not keep what it has. The plan
  // must outlive it, and its weights be loaded.
  NodeTrial(const DevicePlan& plan, size_t work);
  NodeTrial(const NodeTrial&) = delete;

  // The node with a candidate for one of its problems.
  class Made {
   public:
    std::span<const gpu::DispatchCommand> commands() const { return commands_->all(); }

   private:
    friend class NodeTrial;
    std::vector<gpu::Buffer> buffers_;  // for scratch memory and tables
    std::unique_ptr<Commands> commands_;
  };
  // Its pipelines too. An error if it cannot be made for this node.
  std::unique_ptr<Made> make(const KernelProblem& problem, const Candidate& candidate) const;

  struct Result {
    DType dtype = DType::f32;
    std::vector<double> numbers;  // two of a c64
  };
  // Runs it from the same values as all others.
  std::vector<Result> run(const Made& made) const;
  // Where another result differs by more than the op's tolerance, in a sentence; nothing if it does not.
  std::optional<std::string> difference(const std::vector<Result>& got,
                                        const std::vector<Result>& want) const;

  // Nanoseconds on the device, warm; the least of some if it is short. `expected_ns` is about what it takes.
  double time(const Made& made, double expected_ns) const;

 private:
  struct Memory {
    int32_t storage = -1;  // in the program of the trial
    DType dtype = DType::f32;
    int64_t bytes = 0;
    gpu::Buffer buffer = {};
    Tensor values = {};  // that it begins with, again and again; of what the node overwrites, and its inputs
    bool read = false, written = false;
  };

  void fill(const Memory& memory) const;

  const DevicePlan& plan_;
  gpu::Device& device_;
  const size_t work_;
  Target target_;
  NodeOperands operands_;  // with storages of the program of the trial
  std::vector<Storage> storages_;
  std::vector<Placement> placements_;  // of those
  std::vector<Memory> memory_;
};

}  // namespace rlx
