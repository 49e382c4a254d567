// Dispatches as the device takes them: pipelines, bind groups, and a uniform buffer with the parameters of
// all.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/task.h"
#include "gpu/device.h"
#include "kernels/binder.h"
#include "plan/program.h"
#include "runtime/context.h"

namespace rlx {

class Commands {
 public:
  // `buffer` finds the buffers of the bound ranges, which must outlive the commands.
  using FindBuffer = std::function<const gpu::Buffer&(int32_t id)>;
  // Numbers of buffers that change from context to context.
  struct StateIds {
    int32_t first, end;
  };
  // `pipelines` has one for each dispatch.
  Commands(std::shared_ptr<gpu::Device> device, std::vector<BoundDispatch> dispatches,
           std::vector<gpu::Pipeline> pipelines, FindBuffer buffer, StateIds states = {0, 0});
  // What the dispatches need, each once, and which of them every dispatch needs.
  struct Requests {
    std::vector<gpu::PipelineRequest> all;
    std::vector<size_t> of;
  };
  static Requests requests(std::span<const BoundDispatch> dispatches);
  // One for each dispatch.
  static std::vector<gpu::Pipeline> pipelines(gpu::Device& device, std::span<const BoundDispatch> dispatches);

  // Before a submit: the dispatches that use states are bound to those of this context. What is bound to
  // others is kept for the next time.
  void select(const std::shared_ptr<const StateBuffers>& states);

  std::span<const gpu::DispatchCommand> all() const { return commands_; }
  const std::vector<BoundDispatch>& dispatches() const { return dispatches_; }

  // Gives dispatch i other parameters, grid and ranges; its kernel and pattern stay. They reach the device
  // with flush(), before which nothing may be submitted.
  void update(size_t i, BoundDispatch now);
  void flush();
  // Puts other dispatches in the place of `count` from `first` on.
  void replace(size_t first, size_t count, std::vector<BoundDispatch> dispatches);

 private:
  struct Step {
    gpu::Pipeline pipeline;
    gpu::BindGroup group;
    uint64_t views_offset = 0;  // of its two slots in `uniforms`
    uint64_t params_offset = 0;
    uint64_t end = 0;
    std::shared_ptr<gpu::Buffer> uniforms;  // null: those of all commands
  };

  static Step next_step(const BoundDispatch& dispatch, uint64_t& uniform_bytes);
  void list_commands();
  bool uses_states(const BoundDispatch& dispatch) const;
  void drop_state_groups();
  gpu::BindGroup make_group(const Step& step, const BoundDispatch& dispatch);
  void put(size_t i);

  std::shared_ptr<gpu::Device> device_;
  FindBuffer buffer_;
  std::vector<BoundDispatch> dispatches_;
  gpu::Buffer uniforms_;
  std::vector<std::byte> uniform_bytes_;
  uint64_t changed_begin_ = 0, changed_end_ = 0;  // of uniform_bytes_, since the last flush
  std::vector<Step> steps_;
  std::vector<gpu::DispatchCommand> commands_;

  StateIds state_ids_;
  std::vector<size_t> state_steps_;             // those that use states
  std::shared_ptr<const StateBuffers> states_;  // that they are bound to; null if some are not bound
  struct Parked {
    std::shared_ptr<const StateBuffers> states;
    std::vector<gpu::BindGroup> groups;  // of state_steps_
  };
  std::vector<Parked> parked_;
};

// The pipelines of these dispatches; an error names the node whose kernel does not compile.
Task<std::vector<gpu::Pipeline>> make_pipelines(gpu::Device& device,
                                                std::span<const BoundDispatch> dispatches,
                                                const std::vector<Program::NodeName>& names);

}  // namespace rlx
