#include "runtime/device_tensor.h"

#include "base/border.h"
#include "base/fail.h"
#include "ir/dtype.h"
#include "rlx/graph.h"
#include "runtime/device_access.h"
#include "runtime/store.h"
#include "runtime/transfer.h"

namespace rlx {
namespace {

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      fail(ErrorKind::invalid_argument, "a tensor on the device cannot have the shape {}",
           Shape(shape).text());
    }
  }
  return elements;
}

}  // namespace

uint64_t DeviceTensor::Impl::bytes() const {
  return readback_bytes(static_cast<uint64_t>(elements_of(shape)) * device_bytes(dtype));
}

DeviceTensor DeviceTensorAccess::make(std::shared_ptr<gpu::Device> device, DType dtype,
                                      std::vector<int64_t> shape) {
  if (is_encoded(dtype))
    fail(ErrorKind::invalid_argument, "a tensor on the device cannot be {}: encoded types are for params",
         to_string(dtype));
  auto impl = std::make_shared<DeviceTensor::Impl>(std::move(device), dtype, std::move(shape));
  impl->buffer = create_storage(*impl->device, static_cast<int64_t>(impl->bytes()), "tensor");
  return DeviceTensor(std::move(impl));
}

namespace {

DeviceTensor make_in_room(const Device& device, DType dtype, const std::vector<int64_t>& shape) {
  const std::shared_ptr<gpu::Device>& on = DeviceAccess::get(device);
  return Store::Impl::with_room(on, {}, nullptr, [&] { return DeviceTensorAccess::make(on, dtype, shape); });
}

}  // namespace

DeviceTensor::DeviceTensor(const Device& device, const Tensor& value) try
    : DeviceTensor(make_in_room(device, value.dtype(), value.shape())) {
  write(value);
} catch (...) {
  throw_as_error("making a tensor on the device");
}

DeviceTensor DeviceTensor::zeros(const Device& device, DType dtype, std::vector<int64_t> shape) try {
  return make_in_room(device, dtype, shape);
} catch (...) {
  throw_as_error("making a tensor on the device");
}

DType DeviceTensor::dtype() const { return impl_->dtype; }
const std::vector<int64_t>& DeviceTensor::shape() const { return impl_->shape; }
int64_t DeviceTensor::elements() const { return elements_of(impl_->shape); }
std::string DeviceTensor::type_text() const { return TensorType{impl_->dtype, Shape(impl_->shape)}.text(); }

Tensor DeviceTensor::read() const try {
  const auto count = static_cast<size_t>(elements());
  std::vector<std::byte> device(count * device_bytes(impl_->dtype));
  impl_->device->read(impl_->buffer, 0, device);
  std::vector<std::byte> host(count * host_bytes(impl_->dtype));
  from_device(impl_->dtype, device, host);
  return Tensor(impl_->dtype, impl_->shape, std::move(host));
} catch (...) {
  throw_as_error("reading a tensor of the device");
}

void DeviceTensor::write(const Tensor& value) try {
  if (value.dtype() != impl_->dtype || value.shape() != impl_->shape) {
    fail(ErrorKind::invalid_argument, "the tensor on the device is {}, but {} was given", type_text(),
         value.type_text());
  }
  upload(*impl_->device, impl_->buffer, 0, impl_->dtype, ready_to_upload(value, "a tensor on the device"),
         "a tensor on the device");
} catch (...) {
  throw_as_error("writing a tensor of the device");
}

DeviceTensor DeviceTensor::clone() const try {
  DeviceTensor out = DeviceTensorAccess::make(impl_->device, impl_->dtype, impl_->shape);
  const gpu::Copy all{&impl_->buffer, 0, &out.impl_->buffer, 0, impl_->bytes()};
  impl_->device->submit({.before = {&all, 1}});
  return out;
} catch (...) {
  throw_as_error("copying a tensor of the device");
}

}  // namespace rlx
