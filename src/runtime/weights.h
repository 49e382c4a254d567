// Params, constants and states of an executable, and what its load phase derives from params: memory that
// outlives plans.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "passes/passes.h"
#include "plan/cones.h"
#include "plan/program.h"
#include "runtime/commands.h"
#include "runtime/overflow.h"

namespace rlx {

class Weights {
 public:
  Weights(std::shared_ptr<gpu::Device> device, const LoadSplit& split, const Target& target);
  Weights(const Weights&) = delete;

  struct NewParam {
    std::string_view name;
    Tensor value;
  };
  // All of them, or none if one is wrong or cannot be read. If the device fails half-way, those that have
  // lost their old values have none, and runs say so.
  void set_params(std::vector<NewParam> params);
  void set_param(std::string_view name, DType dtype, std::span<const std::byte> host);
  void write_state(std::string_view name, const Tensor& value);
  Tensor read_state(std::string_view name);
  void reset_states();
  // Before a run: derives what depends on params that have changed. An error that names the params that have
  // never been set.
  void finish_loading();

  bool has_param(std::string_view name) const;
  // Where the params, constants and states of a program are, by storage; buffer -1 for its other storages.
  std::vector<Placement> placements(const Program& program, const Graph& graph) const;
  const std::vector<gpu::Buffer>& buffers() const { return buffers_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t derived_bytes() const { return derived_bytes_; }
  int64_t state_bytes() const { return state_bytes_; }
  // The load phase, for reports.
  const std::vector<Program::NodeName>& load_names() const { return load_names_; }
  const std::vector<BoundDispatch>& load_dispatches() const { return load_dispatches_; }

 private:
  struct Entry {
    TensorType type;
    LeafKind kind = LeafKind::param;
    bool derived = false;             // made by the load phase, not by the caller
    bool set = false;                 // by the caller, or a constant that is on the device
    std::optional<size_t> cone = {};  // the part of the load phase that reads it
    bool staged = false;              // on the device only while that runs
    Placement place = {};
  };

  class Packer;

  const std::string& name_of(const Storage& storage) const;  // of the load phase
  static int64_t place(Packer& packer, std::string_view name, Entry& entry);
  void place_leaves(Packer& packer, const LoadSplit& split);
  std::vector<Placement> place_load_phase(Packer& packer, const Program& program,
                                          const std::vector<Cone>& cones);
  void bind_cone(const Program& program, const Cone& cone, std::vector<Placement> placements);
  void add_leaves(const Graph& top);
  void add_leaf(const Node& node);
  void load_constants(const LoadSplit& split);
  Entry& require(std::string_view name, LeafKind kind);
  Entry& require_param(std::string_view name, DType given);
  Entry& require_param(const NewParam& param);
  void put(std::string_view name, const Entry& entry, const Tensor& value);
  [[noreturn]] void fail_missing() const;
  void upload(const Entry& entry, const Tensor& value, std::string_view what);
  const gpu::Buffer& buffer(int32_t id) const;
  void begin_loading();
  void run_cone(size_t cone);
  void end_loading();

  std::shared_ptr<gpu::Device> device_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<gpu::Buffer> buffers_;
  int64_t missing_ = 0;
  int64_t weight_bytes_ = 0;
  int64_t derived_bytes_ = 0;
  int64_t state_bytes_ = 0;

  std::vector<Program::NodeName> load_names_;
  OverflowWords overflow_;
  std::vector<std::byte> overflowed_;  // the words after the last loading, if one was set
  struct LoadCone {
    size_t first, count;                 // of load_dispatches_
    bool dirty = false;                  // it must run: a param has changed since it did, or it never did
    std::vector<gpu::Copy> before = {};  // clear its words for overflow
  };
  std::vector<LoadCone> cones_;
  std::vector<BoundDispatch> load_dispatches_;
  std::vector<int64_t> loading_sizes_;  // of the buffers that exist while loading only
  std::vector<gpu::Buffer> loading_buffers_;
  std::unique_ptr<Commands> loading_;  // null unless params are being set
};

}  // namespace rlx
