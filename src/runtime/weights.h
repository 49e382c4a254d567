// Params, constants and states of an executable: memory that outlives its plans.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "rlx/graph.h"

namespace rlx {

// Host bytes as the device stores them: i64 becomes i32, and a number that does not fit is an error that
// names `what`.
std::vector<std::byte> to_device(DType dtype, std::span<const std::byte> host, std::string_view what);
void from_device(DType dtype, std::span<const std::byte> device, std::span<std::byte> host);

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
  // An error that names the params that were never set.
  void require_all() const;
  // Changes with each param that is set; load phases compare it.
  uint64_t version() const { return version_; }

  const Entry* find(std::string_view name) const;
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
