// One plan on the device: buffers, pipelines and bind groups, made once; running it only encodes and submits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "plan/plan.h"
#include "runtime/weights.h"

namespace rlx {

class Instance {
 public:
  // `program` is the graph lowered; its storages may be larger than the graph needs, for `retarget` to grow
  // into.
  Instance(std::shared_ptr<gpu::Device> device, const Weights& weights, Graph graph, Program program,
           const PlanOptions& options);

  // Rewrites parameters and grids for the same graph at other sizes; false when that needs another plan.
  bool retarget(const Graph& graph, const Program& program);

  struct InputSlot {
    std::string name;
    TensorType type;
    Placement place;
    bool resident = false;  // fed by an output of an earlier run
  };
  struct OutputSlot {
    std::string name;
    TensorType type;
    std::vector<int64_t> dims;
    int32_t buffer = 0;
    uint64_t offset = 0;
    uint64_t device_size = 0;  // bytes without padding
    uint64_t host_size = 0;
  };

  std::vector<InputSlot>& inputs() { return inputs_; }
  const std::vector<OutputSlot>& outputs() const { return outputs_; }
  const gpu::Buffer& buffer(int32_t id) const;

  // Runs the load phase when the weights changed since it last ran.
  void load(const Weights& weights);
  std::span<const gpu::Dispatch> dispatches() const { return main_; }

  const Graph& graph() const { return graph_; }
  const Program& program() const { return program_; }
  const Plan& plan() const { return plan_; }

 private:
  void create_pipelines();
  gpu::BindGroup make_group(size_t index, const BoundDispatch& dispatch);
  void write_uniforms();
  void read_slots();
  bool same_memory(const Dispatch& planned, const Dispatch& now) const;
  void adopt(const std::vector<BoundDispatch>& bound, std::vector<BoundDispatch>& now, size_t first,
             std::vector<gpu::Dispatch>& encoded);

  std::shared_ptr<gpu::Device> device_;
  const std::vector<gpu::Buffer>& fixed_;
  Graph graph_;
  Program program_;
  Plan plan_;
  std::vector<gpu::Buffer> buffers_;
  gpu::Buffer uniforms_;
  std::vector<std::byte> uniform_bytes_;
  std::vector<gpu::Pipeline> pipelines_;   // load phase first
  std::vector<uint64_t> uniform_offsets_;  // of each dispatch's slots
  std::vector<gpu::BindGroup> groups_;
  std::vector<gpu::Dispatch> load_;
  std::vector<gpu::Dispatch> main_;
  std::vector<InputSlot> inputs_;
  std::vector<OutputSlot> outputs_;
  uint64_t loaded_version_ = 0;  // of the weights; theirs begin with 1
};

}  // namespace rlx
