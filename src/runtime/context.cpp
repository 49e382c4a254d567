#include "runtime/context.h"

#include <algorithm>

#include "base/border.h"
#include "base/fail.h"
#include "ir/dtype.h"
#include "kernels/lowering.h"
#include "runtime/device_access.h"
#include "runtime/device_tensor.h"
#include "runtime/transfer.h"

namespace rlx {
namespace {

int64_t bytes_of(const TensorType& type) { return storage_bytes(type.dtype, type.shape.elements().value()); }

TensorType type_of(DType dtype, const std::vector<int64_t>& shape) { return {dtype, Shape(shape)}; }

}  // namespace

namespace {

// All there are, so that they can be asked for room.
std::mutex all_mutex;
std::vector<std::weak_ptr<Context::Impl>> all_contexts;

}  // namespace

std::shared_ptr<Context::Impl> Context::Impl::make(std::shared_ptr<gpu::Device> device) {
  auto out = std::make_shared<Impl>(std::move(device));
  const std::lock_guard lock(all_mutex);
  std::erase_if(all_contexts, [](const std::weak_ptr<Impl>& c) { return c.expired(); });
  all_contexts.push_back(out);
  return out;
}

void park_contexts(const gpu::Device& device, const Context::Impl* but, Store::Impl* held) {
  std::vector<std::shared_ptr<Context::Impl>> others;
  {
    const std::lock_guard lock(all_mutex);
    for (const std::weak_ptr<Context::Impl>& weak : all_contexts) {
      std::shared_ptr<Context::Impl> context = weak.lock();
      if (context && context.get() != but && context->device.get() == &device)
        others.push_back(std::move(context));
    }
  }
  for (const std::shared_ptr<Context::Impl>& context : others) {
    // Who holds one of the two may be waiting for what the caller holds.
    const std::unique_lock lock(context->mutex, std::try_to_lock);
    if (!lock) continue;
    const std::shared_ptr<Store::Impl> store = context->ran_in.lock();
    std::unique_lock<std::mutex> store_lock;
    if (store && store.get() != held) {
      store_lock = std::unique_lock(store->mutex, std::try_to_lock);
      if (!store_lock || store->is_active_but_for(nullptr)) continue;
    }
    context->park();
  }
}

// Bind groups of plans may still name the buffers: the memory goes now, not with them.
Context::Impl::~Impl() {
  for (auto& [name, state] : states) state.buffer.destroy();
}

Context::Impl::Idle Context::Impl::idle() {
  Idle out;
  {
    const std::lock_guard own(mutex);
    out.store = ran_in.lock();
  }
  if (out.store) {
    out.store_lock = std::unique_lock(out.store->mutex);
    out.store->finish_active();
  }
  out.lock = std::unique_lock(mutex);
  return out;
}

Context::Impl::State& Context::Impl::require(std::string_view name, const TensorType& type) {
  auto it = states.find(name);
  if (it == states.end()) {
    State fresh{.type = type, .buffer = create_storage(*device, bytes_of(type), name)};
    it = states.emplace(name, std::move(fresh)).first;
    ++generation;
  } else if (!(it->second.type == type)) {
    fail(ErrorKind::invalid_argument, "the state '{}' is {}, but {} in the context", name, type.text(),
         it->second.type.text());
  }
  bring_back(it->second, name);
  return it->second;
}

Context::Impl::State& Context::Impl::require(std::string_view name) {
  const auto it = states.find(name);
  if (it == states.end()) {
    std::vector<std::string> names;
    for (const auto& [known, state] : states) names.push_back(known);
    fail(ErrorKind::invalid_argument, "the context has no state named '{}' (it has: {})", name,
         names.empty() ? "none" : excerpt(joined(names), 200));
  }
  return it->second;
}

void Context::Impl::bring_back(State& state, std::string_view name) {
  if (!state.parked) return;
  gpu::Buffer fresh = create_storage(*device, bytes_of(state.type), name);
  upload(*device, fresh, 0, state.type.dtype, *state.parked, name);
  state.buffer = std::move(fresh);
  state.parked.reset();
  ++generation;
}

Tensor Context::Impl::read(const State& state) const {
  if (state.parked) return *state.parked;
  const auto count = static_cast<size_t>(state.type.shape.elements().value());
  std::vector<std::byte> bytes(count * device_bytes(state.type.dtype));
  device->read(state.buffer, 0, bytes);
  std::vector<std::byte> host(count * host_bytes(state.type.dtype));
  from_device(state.type.dtype, bytes, host);
  return Tensor(state.type.dtype, state.type.shape.values(), std::move(host));
}

void Context::Impl::check(std::string_view name, DType dtype, const std::vector<int64_t>& shape) const {
  if (is_encoded(dtype))
    fail(ErrorKind::invalid_argument, "the state '{}' cannot be {}", name, to_string(dtype));
  const auto known = states.find(name);
  if (known == states.end() || known->second.type == type_of(dtype, shape)) return;
  fail(ErrorKind::invalid_argument, "the state '{}' is {}, but {} was given", name, known->second.type.text(),
       type_of(dtype, shape).text());
}

void Context::Impl::write(std::string_view name, const Tensor& value) {
  const State& state = require(name, type_of(value.dtype(), value.shape()));
  upload(*device, state.buffer, 0, state.type.dtype, value, name);
}

void Context::Impl::park() {
  NamedTensors values;
  for (const auto& [name, state] : states) values.emplace(name, read(state));
  for (auto& [name, state] : states) {
    state.parked = std::move(values.at(name));
    state.buffer.destroy();
  }
  ++generation;
}

// --- The handle ---

Context::Context(const Device& device) : impl_(Impl::make(DeviceAccess::get(device))) {}

std::vector<TensorInfo> Context::states() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<TensorInfo> out;
  for (const auto& [name, state] : impl_->states) out.push_back({name, state.type});
  return out;
}

bool Context::contains(std::string_view name) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->states.contains(name);
}

Tensor Context::read(std::string_view name) const try {
  const Impl::Idle idle = impl_->idle();
  return impl_->read(impl_->require(name));
} catch (...) {
  throw_as_error("reading a state");
}

NamedTensors Context::read() const try {
  const Impl::Idle idle = impl_->idle();
  NamedTensors out;
  for (const auto& [name, state] : impl_->states) out.emplace(name, impl_->read(state));
  return out;
} catch (...) {
  throw_as_error("reading states");
}

void Context::write(std::string_view name, const Tensor& value) try {
  const Impl::Idle idle = impl_->idle();
  impl_->check(name, value.dtype(), value.shape());
  const Tensor ready = ready_to_upload(value, name);
  impl_->with_room(idle, [&] { impl_->write(name, ready); });
} catch (...) {
  throw_as_error("writing a state");
}

void Context::write(const NamedTensors& values) try {
  const Impl::Idle idle = impl_->idle();
  NamedTensors ready;
  for (const auto& [name, value] : values) {
    impl_->check(name, value.dtype(), value.shape());
    ready.emplace(name, ready_to_upload(value, name));
  }
  for (const auto& [name, value] : ready) {
    impl_->with_room(idle, [&] { impl_->require(name, type_of(value.dtype(), value.shape())); });
  }
  for (const auto& [name, value] : ready) impl_->write(name, value);
} catch (...) {
  throw_as_error("writing states");
}

void Context::write(std::string_view name, const DeviceTensor& value) try {
  const DeviceTensor::Impl& from = DeviceTensorAccess::get(value);
  if (from.device != impl_->device)
    fail(ErrorKind::invalid_argument, "the state '{}' is on another device than the tensor given", name);
  const Impl::Idle idle = impl_->idle();
  impl_->check(name, from.dtype, from.shape);
  const Impl::State& state = impl_->with_room(
      idle, [&]() -> Impl::State& { return impl_->require(name, type_of(from.dtype, from.shape)); });
  const gpu::Copy all{&from.buffer, 0, &state.buffer, 0, from.bytes()};
  impl_->device->submit({.before = {&all, 1}});
} catch (...) {
  throw_as_error("writing a state");
}

void Context::reset() try {
  const Impl::Idle idle = impl_->idle();
  for (auto& [name, state] : impl_->states) {
    if (state.parked) {
      state.parked = Tensor::zeros(state.type.dtype, state.type.shape.values());
    } else {
      impl_->device->clear(state.buffer, 0, state.buffer.size());
    }
  }
} catch (...) {
  throw_as_error("resetting states");
}

Context Context::fork() const try {
  const Impl::Idle idle = impl_->idle();
  auto out = Impl::make(impl_->device);
  std::vector<gpu::Copy> copies;
  for (const auto& [name, state] : impl_->states) {
    Impl::State& made = out->states.emplace(name, Impl::State{.type = state.type}).first->second;
    made.parked = state.parked;
    if (state.parked) continue;
    made.buffer =
        impl_->with_room(idle, [&] { return create_storage(*impl_->device, bytes_of(state.type), name); });
    copies.push_back({&state.buffer, 0, &made.buffer, 0, state.buffer.size()});
  }
  impl_->device->submit({.before = copies});
  return Context(std::move(out));
} catch (...) {
  throw_as_error("forking a context");
}

void Context::park() try {
  const Impl::Idle idle = impl_->idle();
  impl_->park();
} catch (...) {
  throw_as_error("parking a context");
}

bool Context::parked() const {
  const std::lock_guard lock(impl_->mutex);
  return std::ranges::any_of(impl_->states, [](const auto& s) { return s.second.parked.has_value(); });
}

uint64_t Context::bytes() const {
  const std::lock_guard lock(impl_->mutex);
  uint64_t out = 0;
  for (const auto& [name, state] : impl_->states) out += state.buffer ? state.buffer.size() : 0;
  return out;
}

}  // namespace rlx
