// The inside of a Store: tensors by name, where they are on the device, and what was derived from them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "base/task.h"
#include "gpu/device.h"
#include "kernels/binder.h"
#include "rlx/context.h"
#include "rlx/error.h"
#include "rlx/store.h"

namespace rlx {

// A part of a buffer.
struct Allocation {
  std::shared_ptr<gpu::Buffer> buffer;  // empty while it has been let go of
  int64_t offset = 0;
  int64_t bytes = 0;
};

// A param in memory of the device, as the graphs call it.
struct ParamCopy {
  TensorType type;
  Allocation place;
  uint64_t version = 0;  // of the value that is there; 0: none
};

// What a load phase has made of params.
struct DerivedTensor {
  Allocation place;
  std::map<std::string, uint64_t, std::less<>> made_of;  // versions of the params that are in it
};

// An executable, as its store sees it. All calls are made with the store's mutex held.
class StoreUser {
 public:
  // Makes all submits of a run that is under way: its params are its own until then.
  virtual void finish_active() = 0;
  virtual const TensorType* param_type(std::string_view name) const = 0;  // null if it has none
  // A new value is about to come, and has come. What it needs it takes now: the store may not keep the value.
  virtual void expect_param(std::string_view name) = 0;
  virtual void take_param(std::string_view name, const Tensor& value) = 0;
  // Whether a run is under way.
  virtual bool is_active() const = 0;
  // Lets go of what can be made again: plans; weights that the store has sources of, but for those in
  // `needed`.
  virtual void drop_plans() = 0;
  virtual void drop_weights(const std::set<const gpu::Buffer*>& needed) = 0;
  virtual void add_weights(std::set<const gpu::Buffer*>& needed) const = 0;

 protected:
  ~StoreUser() = default;
};

struct Store::Impl {
  // Without sources, values are gone once they have been taken: for an executable that has a store of its
  // own.
  static std::shared_ptr<Impl> make(std::shared_ptr<gpu::Device> device, bool keep_sources);
  Impl(std::shared_ptr<gpu::Device> gpu, bool keep_sources)
      : device(std::move(gpu)), keeps_sources(keep_sources) {}
  Impl(const Impl&) = delete;

  struct Param {
    uint64_t version = 0;                  // 0: it has no value
    std::optional<Tensor> source = {};     // the value
    std::shared_ptr<ParamCopy> kept = {};  // the only place where the value is, if there is no source
    std::vector<std::weak_ptr<ParamCopy>> copies = {};

    TensorType type() const;  // of a value in a store that keeps sources
  };
  struct NewValue {
    std::string_view name;
    Tensor value;
  };

  // All below are called with `mutex` held.

  void finish_active();
  // What is let go of where the device has no room, in this order.
  enum class Evicted : uint8_t { plans, weights, contexts };
  static constexpr auto kEvicted = {Evicted::plans, Evicted::weights, Evicted::contexts};
  // Who needs the room: what they use stays.
  struct Asking {
    const StoreUser* user = nullptr;
    const Context::Impl* context = nullptr;
  };
  // Of all executables and contexts on the device, of the store whose mutex is held, if one is, and of others
  // that nobody is using right now.
  static void make_room(const std::shared_ptr<gpu::Device>& device, Evicted what, const Asking& asking,
                        Impl* held);
  // Does it, and where the device has no room for it, again when there is some.
  template <class F>
  decltype(auto) with_room(const Asking& asking, F&& action) {
    return with_room(device, asking, this, action);
  }
  template <class F>
  static decltype(auto) with_room(const std::shared_ptr<gpu::Device>& device, const Asking& asking,
                                  Impl* held, F&& action) {
    for (const Evicted what : kEvicted) {
      try {
        return action();
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::out_of_memory) throw;
      }
      make_room(device, what, asking, held);
    }
    return action();
  }
  // The same for an action that is a task.
  template <class F>
  static std::invoke_result_t<F> with_room_later(std::shared_ptr<gpu::Device> device, Asking asking,
                                                 Impl* held, F action) {
    for (const Evicted what : kEvicted) {
      try {
        co_return co_await action();
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::out_of_memory) throw;
      }
      make_room(device, what, asking, held);
    }
    co_return co_await action();
  }
  // Refuses a value or a param of a graph that does not fit what is there.
  void check_value(std::string_view name, DType dtype, const std::vector<int64_t>& shape) const;
  void check_type(std::string_view name, const TensorType& type) const;
  // All of them, or none if one is wrong or cannot be read. If the device fails half-way, those that have
  // lost their old values have none.
  void set(std::vector<NewValue> values);
  uint64_t version(std::string_view name) const;
  Tensor read(std::string_view name);

  // Copies of these params, one behind the other in one buffer; none if there are no such copies.
  std::vector<std::shared_ptr<ParamCopy>> find_copies(
      const std::vector<std::pair<std::string, TensorType>>& params);
  void add_copy(const std::string& name, const std::shared_ptr<ParamCopy>& copy);
  // Puts the current value there. False if the value is nowhere any more.
  bool fill(std::string_view name, const TensorType& type, const gpu::Buffer& buffer, int64_t offset);
  bool refresh(std::string_view name, ParamCopy& copy);
  // A graph has written the param in this copy.
  void wrote(std::string_view name, const std::shared_ptr<ParamCopy>& copy);

  bool is_active_but_for(const StoreUser* user) const;
  void evict(Evicted what, const Asking& asking);

  std::mutex mutex;  // of the executables' runs too
  const std::shared_ptr<gpu::Device> device;
  const bool keeps_sources;
  std::map<std::string, Param, std::less<>> params;
  std::map<std::string, std::weak_ptr<DerivedTensor>, std::less<>> derived;  // by how they are made
  std::vector<StoreUser*> users;
  uint64_t clock = 0;    // the last version that was given
  uint64_t uploads = 0;  // how many times a tensor was sent from the host
};

struct StoreAccess {
  static const std::shared_ptr<Store::Impl>& get(const Store& store) { return store.impl_; }
};

}  // namespace rlx
