// What an executable has besides its plans: the params of its store that it reads, its constants, and what
// its load phase derives from both.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/task.h"
#include "gpu/device.h"
#include "kernels/binder.h"
#include "passes/passes.h"
#include "plan/cones.h"
#include "plan/program.h"
#include "runtime/commands.h"
#include "runtime/context.h"
#include "runtime/overflow.h"
#include "runtime/store.h"

namespace rlx {

class Weights {
 public:
  Weights(std::shared_ptr<Store::Impl> store, const LoadSplit& split, const Target& target);
  Weights(const Weights&) = delete;

  const std::shared_ptr<gpu::Device>& device() const { return device_; }

  // All below are called with the store's mutex held.

  // What depends on constants alone, once and for all; before anything else.
  Task<> load_constants(const LoadSplit& split);
  // Before a run: whether params and what is derived from them are up to date, and what makes them so. An
  // error that names the params that have no value.
  bool is_loaded() const;
  Task<> load();
  // An error if what was loaded does not fit its type.
  void check_loaded() const { check_overflow(overflowed_, load_names_); }
  // Lets go of params and derived tensors that can be had again from the store's sources, but for those in
  // `needed`; no plan may use them then. And makes memory for those again.
  void drop(const std::set<const gpu::Buffer*>& needed);
  void add_buffers(std::set<const gpu::Buffer*>& needed) const;
  void need_buffers();
  // With a run: params that the graph writes have new values.
  void wrote_params();
  // As StoreUser has them.
  const TensorType* param_type(std::string_view name) const;
  void expect_param(std::string_view name);
  void take_param(std::string_view name, const Tensor& value);

  // The states of the executable in a context, made if they are not there.
  std::shared_ptr<const StateBuffers> states_in(const std::shared_ptr<Context::Impl>& context);
  const TensorType& state_type(std::string_view name) const;  // an error if there is none

  // Where the params, constants and states of a program are, by storage; buffer -1 for its other storages.
  // Buffers are counted from 0: those of weights, then one for each state.
  std::vector<Placement> placements(const Program& program, const Graph& graph) const;
  const gpu::Buffer& buffer(int32_t id) const;  // of weights
  int32_t weight_buffers() const { return static_cast<int32_t>(buffers_.size()); }
  int32_t fixed_buffers() const { return weight_buffers() + static_cast<int32_t>(states_.size()); }
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t derived_bytes() const { return derived_bytes_; }
  int64_t state_bytes() const;  // in each context
  // The load phase, for reports.
  const std::vector<Program::NodeName>& load_names() const { return load_names_; }
  const std::vector<BoundDispatch>& load_dispatches() const { return load_dispatches_; }

 private:
  struct Entry {
    TensorType type;
    LeafKind kind = LeafKind::param;
    bool derived = false;                      // made by the load phase, not by the caller
    bool written = false;                      // by runs of this graph
    std::optional<size_t> cone = {};           // the part of the load phase that reads it
    bool staged = false;                       // on the device only while that runs
    std::shared_ptr<ParamCopy> copy = {};      // a param that stays there
    std::shared_ptr<DerivedTensor> made = {};  // what the load phase has made
    Placement place = {};
  };
  struct State {
    std::string name;
    TensorType type;
  };

  class Packer;

  void check_room(int64_t bytes) const;
  const std::string& name_of(const Storage& storage) const;  // of the load phase
  Placement placement(const Allocation& memory);             // with the number of its buffer here
  void place_joined(Packer& packer, const LoadSplit::Joined& joined);
  void place_param(Packer& packer, const std::string& name, Entry& entry);
  void place_derived(Packer& packer, const std::string& name, Entry& entry, const std::string& recipe);
  void place_leaves(Packer& packer, const LoadSplit& split);
  std::vector<Placement> place_load_phase(Packer& packer, const Program& program,
                                          const std::vector<Cone>& cones);
  void bind_cone(const Program& program, const Cone& cone, std::vector<Placement> placements);
  void add_leaves(const Graph& top);
  void add_leaf(const Node& node);
  [[noreturn]] void fail_missing() const;
  const gpu::Buffer& any_buffer(int32_t id) const;
  void begin_loading(std::vector<gpu::Pipeline> pipelines);
  Task<> begin_loading();
  Task<> end_loading();
  Task<> wait_for_uploads();

  std::shared_ptr<Store::Impl> store_;
  std::shared_ptr<gpu::Device> device_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::shared_ptr<gpu::Buffer>> buffers_;
  std::vector<State> states_;                                      // by name
  std::vector<std::shared_ptr<const StateBuffers>> known_states_;  // of contexts that were used before
  bool writes_params_ = false;
  int64_t weight_bytes_ = 0;
  int64_t derived_bytes_ = 0;
  uint64_t seen_ = UINT64_MAX;  // the store's clock when everything was up to date

  std::vector<Program::NodeName> load_names_;
  OverflowWords overflow_;
  std::vector<std::byte> overflowed_;  // the words after the last loading, if one was set
  struct LoadCone {
    size_t first, count;                   // of load_dispatches_
    std::vector<std::string> params = {};  // none for what depends on constants alone
    std::vector<DerivedTensor*> made = {};
    std::vector<gpu::Copy> before = {};  // clear its words for overflow
    bool ran = false;                    // since the words were read last
  };
  bool is_stale(const LoadCone& cone) const;
  void run_cone(LoadCone& cone);
  std::vector<LoadCone> cones_;
  std::vector<BoundDispatch> load_dispatches_;
  std::vector<int64_t> loading_sizes_;  // of the buffers that exist while loading only
  std::vector<gpu::Buffer> loading_buffers_;
  std::unique_ptr<Commands> loading_;  // null unless params are being set
};

}  // namespace rlx
