#include "runtime/store.h"

#include <algorithm>

#include "base/border.h"
#include "base/fail.h"
#include "ir/dtype.h"
#include "kernels/lowering.h"
#include "runtime/context.h"
#include "runtime/device_access.h"
#include "runtime/device_tensor.h"
#include "runtime/transfer.h"

namespace rlx {
namespace {

// f32 values are also taken for f16 and bf16 params, and rounded.
bool takes(DType param, DType value) {
  return param == value || (value == DType::f32 && (param == DType::f16 || param == DType::bf16));
}

Tensor read_copy(gpu::Device& device, const ParamCopy& copy) {
  const DType dtype = copy.type.dtype;
  const int64_t elements = copy.type.shape.elements().value();
  std::vector<std::byte> bytes(static_cast<size_t>(device_bytes_of(dtype, elements)));
  device.read(*copy.place.buffer, static_cast<uint64_t>(copy.place.offset), bytes);
  std::vector<std::byte> host(host_bytes_of(dtype, elements));
  from_device(dtype, bytes, host);
  return Tensor(dtype, copy.type.shape.values(), std::move(host));
}

}  // namespace

namespace {

// All there are, so that one can ask the others for room.
std::mutex all_mutex;
std::vector<std::weak_ptr<Store::Impl>> all_stores;

}  // namespace

std::shared_ptr<Store::Impl> Store::Impl::make(std::shared_ptr<gpu::Device> device, bool keep_sources) {
  auto out = std::make_shared<Impl>(std::move(device), keep_sources);
  const std::lock_guard lock(all_mutex);
  std::erase_if(all_stores, [](const std::weak_ptr<Impl>& s) { return s.expired(); });
  all_stores.push_back(out);
  return out;
}

void Store::Impl::make_room(const std::shared_ptr<gpu::Device>& device, Evicted what, const Asking& asking,
                            Impl* held) {
  if (what == Evicted::contexts) return park_contexts(*device, asking.context, held);
  if (held) held->evict(what, asking);
  std::vector<std::shared_ptr<Impl>> others;
  {
    const std::lock_guard lock(all_mutex);
    for (const std::weak_ptr<Impl>& weak : all_stores) {
      std::shared_ptr<Impl> other = weak.lock();
      if (other && other.get() != held && other->device == device) others.push_back(std::move(other));
    }
  }
  for (const std::shared_ptr<Impl>& other : others) {
    // Who holds it may be waiting for this one.
    const std::unique_lock lock(other->mutex, std::try_to_lock);
    if (lock) other->evict(what, asking);
  }
}

bool Store::Impl::is_active_but_for(const StoreUser* user) const {
  return std::ranges::any_of(users, [&](const StoreUser* u) { return u != user && u->is_active(); });
}

void Store::Impl::evict(Evicted what, const Asking& asking) {
  if (is_active_but_for(asking.user)) return;  // a run that is under way uses everything
  if (what == Evicted::plans) {
    for (StoreUser* user : users) user->drop_plans();
    return;
  }
  std::set<const gpu::Buffer*> needed;
  if (asking.user) asking.user->add_weights(needed);
  for (StoreUser* user : users) {
    if (user != asking.user) user->drop_weights(needed);
  }
  ++clock;  // whoever has lost some looks for them
}

TensorType Store::Impl::Param::type() const {
  return source ? TensorType{source->dtype(), Shape(source->shape())} : kept->type;
}

void Store::Impl::finish_active() {
  for (StoreUser* user : users) user->finish_active();
}

void Store::Impl::check_value(std::string_view name, DType dtype, const std::vector<int64_t>& shape) const {
  for (const StoreUser* user : users) {
    const TensorType* const type = user->param_type(name);
    if (!type) continue;
    if (!takes(type->dtype, dtype)) {
      fail(ErrorKind::invalid_argument, "the param '{}' has type {}, but {} values were given", name,
           to_string(type->dtype), to_string(dtype));
    }
    if (shape != type->shape.values()) {
      fail(ErrorKind::invalid_argument, "the param '{}' is {}, but {} was given", name, type->text(),
           TensorType{dtype, Shape(shape)}.text());
    }
  }
}

void Store::Impl::check_type(std::string_view name, const TensorType& type) const {
  for (const StoreUser* user : users) {
    const TensorType* const other = user->param_type(name);
    if (other && !(*other == type)) {
      fail(ErrorKind::invalid_argument,
           "the param '{}' is {}, but {} in another graph of the same store: one name is one tensor", name,
           type.text(), other->text());
    }
  }
  const auto known = params.find(name);
  if (known == params.end() || known->second.version == 0) return;
  const Param& param = known->second;
  const TensorType has = param.type();
  if (!takes(type.dtype, has.dtype) || !(has.shape == type.shape)) {
    fail(ErrorKind::invalid_argument, "the param '{}' is {}, but the store has {}", name, type.text(),
         has.text());
  }
}

uint64_t Store::Impl::version(std::string_view name) const {
  const auto it = params.find(name);
  return it == params.end() ? 0 : it->second.version;
}

void Store::Impl::set(std::vector<NewValue> values) {
  for (const NewValue& v : values) check_value(v.name, v.value.dtype(), v.value.shape());
  // Those without a value come first: as long as they can still fail to be read, no value has been replaced.
  std::ranges::stable_partition(values, [&](const NewValue& v) { return version(v.name) == 0; });
  for (NewValue& v : values) {
    if (version(v.name) > 0) v.value = ready_to_upload(v.value, v.name);
  }
  finish_active();
  if (!keeps_sources) {
    for (StoreUser* user : users) {
      for (const NewValue& v : values) user->expect_param(v.name);
    }
  }
  for (const NewValue& v : values) params.try_emplace(std::string(v.name));
  if (keeps_sources) {
    // It reaches the device with the next run that needs it.
    for (NewValue& v : values) {
      Param& param = params.find(v.name)->second;
      param.version = ++clock;
      param.kept.reset();
      param.source = std::move(v.value);
    }
    return;
  }
  // From here on only the device can fail.
  size_t tried = 0;
  try {
    while (tried < values.size()) {
      NewValue& v = values[tried++];
      Param& param = params.find(v.name)->second;
      param.version = ++clock;
      param.kept.reset();
      param.source = std::move(v.value);
      for (const std::weak_ptr<ParamCopy>& weak : param.copies) {
        if (const std::shared_ptr<ParamCopy> copy = weak.lock()) refresh(v.name, *copy);
      }
      for (StoreUser* user : users) user->take_param(v.name, *param.source);
      param.source.reset();
    }
  } catch (...) {
    for (const NewValue& v : std::span(values).first(tried)) {
      Param& param = params.find(v.name)->second;
      param.version = 0;
      param.source.reset();
    }
    throw;
  }
}

std::vector<std::shared_ptr<ParamCopy>> Store::Impl::find_copies(
    const std::vector<std::pair<std::string, TensorType>>& wanted) {
  const auto copies_of = [&](const std::string& name, const TensorType& type) {
    std::vector<std::shared_ptr<ParamCopy>> out;
    const auto it = params.find(name);
    if (it == params.end()) return out;
    for (const std::weak_ptr<ParamCopy>& weak : it->second.copies) {
      const std::shared_ptr<ParamCopy> copy = weak.lock();
      if (copy && copy->type == type) out.push_back(copy);
    }
    return out;
  };
  for (const std::shared_ptr<ParamCopy>& first : copies_of(wanted[0].first, wanted[0].second)) {
    std::vector<std::shared_ptr<ParamCopy>> chain = {first};
    for (size_t i = 1; i < wanted.size() && chain.size() == i; ++i) {
      const Allocation& before = chain.back()->place;
      for (const std::shared_ptr<ParamCopy>& next : copies_of(wanted[i].first, wanted[i].second)) {
        if (next->place.buffer != before.buffer || next->place.offset != before.offset + before.bytes)
          continue;
        chain.push_back(next);
        break;
      }
    }
    if (chain.size() == wanted.size()) return chain;
  }
  return {};
}

void Store::Impl::add_copy(const std::string& name, const std::shared_ptr<ParamCopy>& copy) {
  std::vector<std::weak_ptr<ParamCopy>>& copies = params[name].copies;
  std::erase_if(copies, [](const std::weak_ptr<ParamCopy>& c) { return c.expired(); });
  copies.push_back(copy);
}

bool Store::Impl::fill(std::string_view name, const TensorType& type, const gpu::Buffer& buffer,
                       int64_t offset) {
  Param& param = params.find(name)->second;
  if (param.source) {
    upload(*device, buffer, offset, type.dtype, *param.source, name);
    ++uploads;
    return true;
  }
  for (const std::weak_ptr<ParamCopy>& weak : param.copies) {
    const std::shared_ptr<ParamCopy> copy = weak.lock();
    if (!copy || copy->version != param.version || !(copy->type == type)) continue;
    const uint64_t bytes =
        readback_bytes(static_cast<uint64_t>(device_bytes_of(type.dtype, type.shape.elements().value())));
    const gpu::Copy all{copy->place.buffer.get(), static_cast<uint64_t>(copy->place.offset), &buffer,
                        static_cast<uint64_t>(offset), bytes};
    device->submit({.before = {&all, 1}});
    return true;
  }
  return false;
}

bool Store::Impl::refresh(std::string_view name, ParamCopy& copy) {
  const uint64_t now = version(name);
  if (copy.version == now) return now != 0;
  if (!fill(name, copy.type, *copy.place.buffer, copy.place.offset)) return false;
  copy.version = now;
  return true;
}

void Store::Impl::wrote(std::string_view name, const std::shared_ptr<ParamCopy>& copy) {
  Param& param = params.find(name)->second;
  param.version = copy->version = ++clock;
  param.source.reset();
  param.kept = copy;
}

Tensor Store::Impl::read(std::string_view name) {
  const auto it = params.find(name);
  if (it == params.end() || it->second.version == 0)
    fail(ErrorKind::invalid_argument, "the store has no tensor named '{}'", name);
  const Param& param = it->second;
  if (param.source) return *param.source;
  for (const std::weak_ptr<ParamCopy>& weak : param.copies) {
    const std::shared_ptr<ParamCopy> copy = weak.lock();
    if (copy && copy->version == param.version) return read_copy(*device, *copy);
  }
  fail(ErrorKind::invalid_argument, "the value of '{}' has been used up: it is no longer on the device",
       name);
}

// --- The handle ---

Store::Store(const Device& device) : impl_(Impl::make(DeviceAccess::get(device), true)) {}

Device Store::device() const { return DeviceAccess::make(impl_->device); }

void Store::set(std::string_view name, const Tensor& value) try {
  const std::lock_guard lock(impl_->mutex);
  impl_->set({{name, value}});
} catch (...) {
  throw_as_error("setting a tensor of a store");
}

void Store::set(const NamedTensors& values) try {
  std::vector<Impl::NewValue> all;
  for (const auto& [name, value] : values) all.push_back({name, value});
  const std::lock_guard lock(impl_->mutex);
  impl_->set(std::move(all));
} catch (...) {
  throw_as_error("setting tensors of a store");
}

void Store::set(std::string_view name, const DeviceTensor& value) try {
  const DeviceTensor::Impl& from = DeviceTensorAccess::get(value);
  const std::lock_guard lock(impl_->mutex);
  if (from.device != impl_->device)
    fail(ErrorKind::invalid_argument, "the tensor for '{}' is on another device than the store", name);
  impl_->check_value(name, from.dtype, from.shape);
  impl_->finish_active();
  const TensorType type{from.dtype, Shape(from.shape)};
  auto copies = impl_->find_copies({{std::string(name), type}});
  if (copies.empty()) {
    const int64_t bytes = storage_bytes(type.dtype, value.elements());
    auto buffer = std::make_shared<gpu::Buffer>(
        impl_->with_room({}, [&] { return create_storage(*impl_->device, bytes, name); }));
    copies.push_back(std::make_shared<ParamCopy>(type, Allocation{std::move(buffer), 0, bytes}));
    impl_->add_copy(std::string(name), copies[0]);
  }
  const Allocation& place = copies[0]->place;
  const gpu::Copy all{&from.buffer, 0, place.buffer.get(), static_cast<uint64_t>(place.offset), from.bytes()};
  impl_->device->submit({.before = {&all, 1}});
  impl_->wrote(name, copies[0]);
} catch (...) {
  throw_as_error("setting a tensor of a store");
}

std::vector<TensorInfo> Store::tensors() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<TensorInfo> out;
  for (const auto& [name, param] : impl_->params) {
    if (param.version > 0) out.push_back({name, param.type()});
  }
  return out;
}

bool Store::contains(std::string_view name) const { return version(name) > 0; }

uint64_t Store::version(std::string_view name) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->version(name);
}

Tensor Store::read(std::string_view name) const try {
  const std::lock_guard lock(impl_->mutex);
  impl_->finish_active();
  return impl_->read(name);
} catch (...) {
  throw_as_error("reading a tensor of a store");
}

Store::Use Store::use() const {
  const std::lock_guard lock(impl_->mutex);
  Use out;
  for (const auto& [name, param] : impl_->params) {
    for (const std::weak_ptr<ParamCopy>& weak : param.copies) {
      if (const auto copy = weak.lock(); copy && *copy->place.buffer)
        out.tensor_bytes += static_cast<uint64_t>(copy->place.bytes);
    }
  }
  for (const auto& [key, weak] : impl_->derived) {
    if (const auto made = weak.lock(); made && *made->place.buffer)
      out.derived_bytes += static_cast<uint64_t>(made->place.bytes);
  }
  return out;
}

}  // namespace rlx
