// One plan on the device: buffers, pipelines and bind groups, made once; running it only encodes and submits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "kernels/expected_time.h"
#include "plan/plan.h"
#include "rlx/report.h"
#include "runtime/commands.h"
#include "runtime/overflow.h"
#include "runtime/resizable_program.h"
#include "runtime/weights.h"

namespace rlx {

class DevicePlan {
 public:
  // The pipelines are those of plan.dispatches.
  DevicePlan(const Weights& weights, const Target& target, ResizableProgram lowered, Plan plan,
             std::vector<gpu::Pipeline> pipelines);
  DevicePlan(const DevicePlan&) = delete;

  // Before a run: it takes place in the context that has these states.
  void select(const std::shared_ptr<const StateBuffers>& states);

  // Lowers what depends on symbols again, for these values, and rewrites its parameters and grids. If that
  // needs another plan, the reason, and this one must be retargeted before it runs again.
  std::optional<std::string> retarget(const SymbolValues& values);
  // The same for a symbol that only the run knows, between two submits of a run.
  void set_run_symbol(const std::string& symbol, int64_t value);

  struct InputSlot {
    std::string name;
    ValueId value;
    TensorType type = {};
    Placement place;
    size_t host_bytes = 0;
    uint64_t device_bytes = 0;  // without padding
  };
  struct OutputSlot {
    std::string name;
    ValueId value;
    TensorType type = {};
    Dims dims = {};
    int32_t buffer = 0;
    uint64_t offset = 0;
    uint64_t device_bytes = 0;  // without padding
    uint64_t host_bytes = 0;
  };

  const std::vector<InputSlot>& inputs() const { return inputs_; }
  const OutputSlot& output(std::string_view name) const;  // an error when there is none
  const gpu::Buffer& buffer(int32_t id) const;

  std::span<const gpu::DispatchCommand> commands() const { return commands_->all(); }
  // Whether a run needs to know what the device has computed in order to go on.
  bool has_segments() const { return has_segments_; }
  const std::vector<Program::Work>& work() const { return lowered_.program.work; }
  // The commands of a node's dispatches [first, first + count), as positions in commands().
  struct Range {
    size_t first, count;
  };
  Range commands_of(size_t work, size_t first, size_t count) const;
  Range commands_of(size_t work) const { return commands_of(work, 0, bound_[work].starts.size() - 1); }
  // What the instructions do, in sentences.
  std::vector<std::string> control() const;
  // Inputs, tables and intermediates that dispatches use, with their places.
  std::vector<StorageReport> storages() const;
  // Where a word lies that the host reads.
  Placement place_of(int32_t storage) const { return plan_.placements[static_cast<size_t>(storage)]; }
  const std::vector<BoundDispatch>& dispatches() const { return commands_->dispatches(); }
  // Where a submit ends that begins with number `first` of `count` commands, these or, if they are none, all:
  // after as many as take no longer than a submit may (Target::longest_ns), but at least one.
  size_t end_of_submit(std::span<const size_t> commands, size_t first, size_t count) const;
  bool is_too_long(size_t command) const;  // for a submit of its own
  // The words for overflow; zeros at the start of a run.
  OverflowWords overflow() const;
  // What a node of the graph holds, after a run of a plan that keeps intermediates.
  Tensor read_value(std::string_view node, int32_t output) const;

  const Graph& graph() const { return lowered_.sized.graph; }
  const std::shared_ptr<gpu::Device>& device() const { return device_; }
  // What it was lowered from and for.
  const ResizableProgram& lowered() const { return lowered_; }
  const Target& target() const { return target_; }
  // For errors of the device.
  const std::shared_ptr<const std::string>& what() const { return what_; }
  const std::vector<Program::NodeName>& names() const { return lowered_.program.names; }
  const Plan& plan() const { return plan_; }
  // How many nodes were lowered so far to retarget it: tests count them.
  int64_t relowered() const { return relowered_; }

 private:
  // The commands of a node.
  struct Bound {
    size_t first;                // of all commands
    std::vector<size_t> starts;  // of each dispatch, from `first`; one more at the end
  };

  double expected_ns(size_t command) const { return rlx::expected_ns(rates_, dispatches()[command]); }
  void expect();
  void make_slots();
  void size_slots();
  std::optional<std::string> relower_nodes(const std::vector<int32_t>& nodes);
  void place_new_storages();
  bool overwrites_input(const Dispatch& dispatch) const;
  void adopt(Relowered::Node& node);

  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<const std::string> what_;
  const Weights& weights_;
  std::shared_ptr<const StateBuffers> states_;  // of the last run
  Target target_;
  ResizableProgram lowered_;
  Plan plan_;
  std::vector<gpu::Buffer> buffers_;
  std::unique_ptr<Commands> commands_;
  std::vector<Bound> bound_;  // by work
  bool has_segments_ = false;
  Rates rates_;
  double expected_ns_ = 0;  // of all commands
  std::vector<InputSlot> inputs_;
  std::vector<OutputSlot> outputs_;
  SymbolValues run_values_;  // of run symbols, for which the nodes that depend on them are lowered
  int64_t relowered_ = 0;
  // What retargeting makes, kept so that nothing is allocated when it is done again.
  Relowered relowering_;
  std::vector<BoundDispatch> rebound_;
  std::vector<size_t> starts_;
};

}  // namespace rlx
