// One plan on the device: buffers, pipelines and bind groups, made once; running it only encodes and submits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "plan/plan.h"
#include "runtime/weights.h"

namespace rlx {

class DevicePlan {
 public:
  // `program` is the lowered graph; its storages may be larger than the graph needs, for `retarget` to grow
  // into.
  DevicePlan(std::shared_ptr<gpu::Device> device, const Weights& weights, Graph graph, Program program,
             Plan plan);
  DevicePlan(const DevicePlan&) = delete;

  // Rewrites parameters and grids for the same graph at other sizes; false when that needs another plan.
  bool retarget(const Graph& graph, const Program& program);

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

  // Runs the load phase if the weights have changed since it last ran.
  void load(const Weights& weights);
  std::span<const gpu::DispatchCommand> dispatches() const {
    return std::span(commands_).subspan(plan_.load.size());
  }
  // What a node of the graph holds, after a run of a plan that keeps intermediates.
  Tensor read_value(std::string_view node, int32_t output) const;

  const Graph& graph() const { return graph_; }
  const Program& program() const { return program_; }
  const Plan& plan() const { return plan_; }

 private:
  // What a dispatch needs on the device.
  struct Step {
    gpu::Pipeline pipeline;
    gpu::BindGroup group;
    uint64_t views_offset = 0;  // of its two slots in `uniforms_`
    uint64_t params_offset = 0;
  };

  void create_steps();
  gpu::BindGroup make_group(const Step& step, const BoundDispatch& dispatch);
  void write_uniforms();
  void read_slots();
  bool same_memory(const Dispatch& planned, const Dispatch& now) const;
  void adopt(const std::vector<BoundDispatch>& bound, std::vector<BoundDispatch>& now, size_t first);

  std::shared_ptr<gpu::Device> device_;
  const std::vector<gpu::Buffer>& fixed_;
  Graph graph_;
  Program program_;
  Plan plan_;
  std::vector<gpu::Buffer> buffers_;
  gpu::Buffer uniforms_;
  std::vector<std::byte> uniform_bytes_;
  std::vector<Step> steps_;                     // the load phase first
  std::vector<gpu::DispatchCommand> commands_;  // of the steps, as a submit takes them
  std::vector<InputSlot> inputs_;
  std::vector<OutputSlot> outputs_;
  uint64_t loaded_version_ = 0;  // of the weights; theirs begin with 1
};

}  // namespace rlx
