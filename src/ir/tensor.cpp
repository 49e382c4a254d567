#include "rlx/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/half.h"
#include "ir/view.h"
#include "rlx/shape.h"

namespace rlx {
namespace {

int64_t count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0) fail(ErrorKind::invalid_argument, "a tensor can not have the dimension {}", d);
    n = checked_mul(n, d);
  }
  return n;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Truncates toward zero, saturates, and turns NaN into 0.
template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  const double low = static_cast<double>(std::numeric_limits<T>::min());
  const double high = static_cast<double>(std::numeric_limits<T>::max());
  const double whole = std::trunc(value);
  if (whole <= low) return std::numeric_limits<T>::min();
  if (whole >= high) return std::numeric_limits<T>::max();
  return static_cast<T>(whole);
}

void store_double(DType type, std::byte* at, double value) {
  switch (type) {
    case DType::f32:
      return store(at, static_cast<float>(value));
    case DType::f16:
      return store(at, f16_from_double(value));
    case DType::bf16:
      return store(at, bf16_from_double(value));
    case DType::i32:
      return store(at, saturate<int32_t>(value));
    case DType::u32:
      return store(at, saturate<uint32_t>(value));
    case DType::i64:
      return store(at, saturate<int64_t>(value));
    case DType::bool_:
      return store(at, static_cast<uint8_t>(value != 0));
    case DType::i8:
      return store(at, saturate<int8_t>(value));
    case DType::u8:
      return store(at, saturate<uint8_t>(value));
    case DType::c64:
      return store(at, std::complex<float>(static_cast<float>(value), 0));
  }
}

// Integers wrap to the width of the type, as device arithmetic does.
void store_int(DType type, std::byte* at, int64_t value) {
  switch (type) {
    case DType::i32:
      return store(at, static_cast<int32_t>(value));
    case DType::u32:
      return store(at, static_cast<uint32_t>(value));
    case DType::i64:
      return store(at, value);
    case DType::i8:
      return store(at, static_cast<int8_t>(value));
    case DType::u8:
      return store(at, static_cast<uint8_t>(value));
    case DType::bool_:
      return store(at, static_cast<uint8_t>(value != 0));
    default:
      return store_double(type, at, static_cast<double>(value));
  }
}

}  // namespace

Tensor::Tensor(DType type, std::vector<int64_t> dims, std::vector<std::byte> bytes)
    : type_(type),
      dims_(std::move(dims)),
      elements_(count(dims_)),
      data_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {
  if (data_->size() != byte_size()) {
    fail(ErrorKind::invalid_argument, "a tensor of type {} needs {} bytes, not {}", type_text(), byte_size(),
         data_->size());
  }
}

Tensor Tensor::fill(DType type, std::vector<int64_t> dims, double value) {
  std::vector<std::byte> one(host_bytes(type));
  store_double(type, one.data(), value);
  Tensor t(type, {}, std::move(one));
  t.dims_ = std::move(dims);
  t.elements_ = count(t.dims_);
  t.is_fill_ = true;
  return t;
}

Tensor Tensor::from_doubles(DType type, std::vector<int64_t> dims, std::span<const double> values) {
  std::vector<std::byte> bytes(values.size() * host_bytes(type));
  for (size_t i = 0; i < values.size(); ++i)
    store_double(type, bytes.data() + i * host_bytes(type), values[i]);
  return Tensor(type, std::move(dims), std::move(bytes));
}

Tensor Tensor::from_ints(DType type, std::vector<int64_t> dims, std::span<const int64_t> values) {
  std::vector<std::byte> bytes(values.size() * host_bytes(type));
  for (size_t i = 0; i < values.size(); ++i) store_int(type, bytes.data() + i * host_bytes(type), values[i]);
  return Tensor(type, std::move(dims), std::move(bytes));
}

std::string Tensor::type_text() const { return std::string(to_string(type_)) + Shape::of(dims_).text(); }

std::vector<std::byte> Tensor::bytes() const {
  if (!is_fill_) return *data_;
  std::vector<std::byte> out(byte_size());
  for (size_t at = 0; at < out.size(); at += data_->size())
    std::memcpy(out.data() + at, data_->data(), data_->size());
  return out;
}

void Tensor::require_type(DType wanted) const {
  if (type_ != wanted) {
    fail(ErrorKind::invalid_argument, "the tensor has type {}, not {}", to_string(type_), to_string(wanted));
  }
}

const std::byte* Tensor::element(int64_t index) const {
  check(index >= 0 && index < elements_, "a tensor index lies inside the tensor");
  return data_->data() + (is_fill_ ? 0 : static_cast<size_t>(index) * host_bytes(type_));
}

double Tensor::real(int64_t index) const {
  const std::byte* at = element(index);
  switch (type_) {
    case DType::f32:
      return load<float>(at);
    case DType::f16:
      return float_from_f16(load<uint16_t>(at));
    case DType::bf16:
      return float_from_bf16(load<uint16_t>(at));
    case DType::c64:
      return load<std::complex<float>>(at).real();
    default:
      return static_cast<double>(integer(index));
  }
}

int64_t Tensor::integer(int64_t index) const {
  const std::byte* at = element(index);
  switch (type_) {
    case DType::i32:
      return load<int32_t>(at);
    case DType::u32:
      return load<uint32_t>(at);
    case DType::i64:
      return load<int64_t>(at);
    case DType::bool_:
      return load<uint8_t>(at) != 0;
    case DType::i8:
      return load<int8_t>(at);
    case DType::u8:
      return load<uint8_t>(at);
    default:
      fail(ErrorKind::invalid_argument, "the tensor has type {}, which is not an integer", to_string(type_));
  }
}

std::complex<double> Tensor::complex(int64_t index) const {
  if (type_ != DType::c64) return real(index);
  return std::complex<double>(load<std::complex<float>>(element(index)));
}

std::vector<double> Tensor::doubles() const {
  std::vector<double> out(static_cast<size_t>(elements_));
  for (int64_t i = 0; i < elements_; ++i) out[static_cast<size_t>(i)] = real(i);
  return out;
}

std::vector<int64_t> Tensor::integers() const {
  std::vector<int64_t> out(static_cast<size_t>(elements_));
  for (int64_t i = 0; i < elements_; ++i) out[static_cast<size_t>(i)] = integer(i);
  return out;
}

Tensor Tensor::head(int64_t axis, int64_t n) const {
  std::vector<int64_t> dims = dims_;
  int64_t& length = dims.at(static_cast<size_t>(axis));
  length = std::clamp<int64_t>(n, 0, length);
  const int64_t row =
      product({dims.begin() + axis + 1, dims.end()}) * static_cast<int64_t>(host_bytes(type_));
  const std::vector<std::byte> source = bytes();
  std::vector<std::byte> out;
  for (auto at = source.begin(); at != source.end(); at += dims_[static_cast<size_t>(axis)] * row) {
    out.insert(out.end(), at, at + length * row);
  }
  return Tensor(type_, std::move(dims), std::move(out));
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.type_ != b.type_ || a.dims_ != b.dims_) return false;
  if (a.is_fill_ == b.is_fill_) return *a.data_ == *b.data_;
  return a.bytes() == b.bytes();
}

}  // namespace rlx
