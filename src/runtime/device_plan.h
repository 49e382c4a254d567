// One plan on the device: buffers, pipelines and bind groups, made once; running it only encodes and submits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "plan/plan.h"
#include "runtime/commands.h"
#include "runtime/weights.h"

namespace rlx {

// A graph, lowered for one set of symbol values, whose memory also serves others.
struct LoweredGraph {
  Graph symbolic;                 // materialized
  Graph graph;                    // with numbers for its symbols
  std::vector<int32_t> changing;  // nodes that are lowered again for other values
  Program program;
};

class DevicePlan {
 public:
  DevicePlan(std::shared_ptr<gpu::Device> device, const Weights& weights, const Target& target,
             LoweredGraph lowered, Plan plan);
  DevicePlan(const DevicePlan&) = delete;

  // Lowers what depends on symbols again, for these values, and rewrites its parameters and grids. The reason
  // if that needs another plan; this one must then be retargeted before it runs again.
  std::optional<std::string> retarget(const SymbolValues& values);

  struct InputSlot {
    std::string name;
    TensorType type;
    Placement place;
    size_t host_bytes = 0;
    bool resident = false;  // fed by an output of an earlier run
  };
  struct OutputSlot {
    std::string name;
    TensorType type;
    std::vector<int64_t> dims;
    int32_t buffer = 0;
    uint64_t offset = 0;
    uint64_t device_bytes = 0;  // without padding
    uint64_t host_bytes = 0;
  };

  std::vector<InputSlot>& inputs() { return inputs_; }
  const OutputSlot& output(std::string_view name) const;  // an error when there is none
  const gpu::Buffer& buffer(int32_t id) const;

  std::span<const gpu::DispatchCommand> commands() const { return commands_->all(); }
  const std::vector<BoundDispatch>& dispatches() const { return commands_->dispatches(); }
  // What a node of the graph holds, after a run of a plan that keeps intermediates.
  Tensor read_value(std::string_view node, int32_t output) const;

  const Graph& graph() const { return lowered_.graph; }
  const Plan& plan() const { return plan_; }
  // How many nodes were lowered so far to retarget it: tests count them.
  int64_t relowered() const { return relowered_; }

 private:
  void read_slots();
  std::optional<std::string> bind(const Relowered& node, std::vector<BoundDispatch>& into) const;
  bool same_memory(const Dispatch& planned, const Dispatch& now) const;

  std::shared_ptr<gpu::Device> device_;
  const std::vector<gpu::Buffer>& fixed_;
  Target target_;
  LoweredGraph lowered_;
  Plan plan_;
  std::vector<gpu::Buffer> buffers_;
  std::unique_ptr<Commands> commands_;
  std::vector<InputSlot> inputs_;
  std::vector<OutputSlot> outputs_;
  int64_t relowered_ = 0;
};

}  // namespace rlx
