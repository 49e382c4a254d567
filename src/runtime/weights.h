// Params, constants and states of an executable: memory that outlives its plans.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "plan/program.h"
#include "rlx/graph.h"

namespace rlx {

class Weights {
 public:
  Weights(std::shared_ptr<gpu::Device> device, const Graph& graph);

  struct Entry {
    TensorType type;
    Placement place;
    bool is_param = false;
    bool is_state = false;
    bool set = false;
  };

  void set_param(std::string_view name, DType dtype, std::span<const std::byte> host);
  void write_state(std::string_view name, const Tensor& value);
  Tensor read_state(std::string_view name);
  void reset_states();
  // An error that names the params that have never been set.
  void require_all() const;
  // Changes with each param that is set; load phases compare it.
  uint64_t version() const { return version_; }

  const Entry* find(std::string_view name) const;
  // Where the params, constants and states of a program are, by storage; buffer -1 for its other storages.
  std::vector<Placement> placements(const Program& program, const Graph& graph) const;
  const std::vector<gpu::Buffer>& buffers() const { return buffers_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t state_bytes() const { return state_bytes_; }

 private:
  Entry& require(std::string_view name, bool state);
  void upload(const Entry& entry, std::span<const std::byte> host, std::string_view what);

  std::shared_ptr<gpu::Device> device_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<gpu::Buffer> buffers_;
  uint64_t version_ = 1;
  int64_t missing_ = 0;
  int64_t weight_bytes_ = 0;
  int64_t state_bytes_ = 0;
};

}  // namespace rlx
