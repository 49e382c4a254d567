// The inside of a Context.
#pragma once

#include <mutex>
#include <optional>

#include "gpu/device.h"
#include "rlx/context.h"
#include "runtime/store.h"

namespace rlx {

struct Context::Impl {
  static std::shared_ptr<Impl> make(std::shared_ptr<gpu::Device> device);
  explicit Impl(std::shared_ptr<gpu::Device> gpu) : device(std::move(gpu)) {}
  ~Impl();
  Impl(const Impl&) = delete;

  struct State {
    TensorType type;
    gpu::Buffer buffer = {};            // empty while it is parked
    std::optional<Tensor> parked = {};  // its contents then
  };

  // For calls from outside: no run is under way in the context while this is held.
  struct Idle {
    std::shared_ptr<Store::Impl> store;
    std::unique_lock<std::mutex> store_lock, lock;
  };
  Idle idle();

  // All below are called with `mutex` held.

  // The state of that name, on the device; made if it is not there. An error if it has another type.
  State& require(std::string_view name, const TensorType& type);
  State& require(std::string_view name);
  void bring_back(State& state, std::string_view name);
  Tensor read(const State& state) const;
  void check(std::string_view name, DType dtype, const std::vector<int64_t>& shape) const;
  void write(std::string_view name, const Tensor& value);
  void park();
  // Does it, and again when other things on the device have made room.
  template <class F>
  decltype(auto) with_room(const Idle& idle, F&& action) {
    return Store::Impl::with_room(device, {nullptr, this}, idle.store.get(), action);
  }

  const std::shared_ptr<gpu::Device> device;
  std::mutex mutex;  // taken after that of a store
  std::map<std::string, State, std::less<>> states;
  uint64_t generation = 0;            // grows when a state gets other memory
  std::weak_ptr<Store::Impl> ran_in;  // the store of the executable that ran here last
};

// Parks the contexts on the device in which no run is under way, but for this one. The mutex of `held`, if it
// is not null, is held by the caller.
void park_contexts(const gpu::Device& device, const Context::Impl* but, Store::Impl* held);

struct ContextAccess {
  static const std::shared_ptr<Context::Impl>& get(const Context& context) { return context.impl_; }
  static Context make(std::shared_ptr<Context::Impl> impl) { return Context(std::move(impl)); }
};

// The memory of an executable's states in one context, in the order of the executable's.
struct StateBuffers {
  std::weak_ptr<Context::Impl> context;  // whose memory it is: no run may use it once that is gone
  uint64_t generation = 0;
  std::vector<const gpu::Buffer*> buffers;
};

}  // namespace rlx
