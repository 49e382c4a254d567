// A tensor on the host: type, dims and row-major bytes.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rlx/dtype.h"

namespace rlx {

// The C++ type that stands for a DType in the typed calls below.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::bool_;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<std::complex<float>> {
  static constexpr DType value = DType::c64;
};

// A value type: copies share the bytes, which never change.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType type, std::vector<int64_t> dims, std::vector<std::byte> bytes);
  // One value everywhere, kept as one element until it is uploaded.
  static Tensor fill(DType type, std::vector<int64_t> dims, double value);
  template <class T>
  static Tensor of(std::vector<int64_t> dims, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    return Tensor(DTypeOf<T>::value, std::move(dims), std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  template <class T>
  static Tensor of(std::vector<int64_t> dims, std::initializer_list<T> values) {
    return of<T>(std::move(dims), std::span<const T>(values.begin(), values.size()));
  }
  // Rounded to the type as Cast does: to nearest even for floats, truncated and saturated for integers.
  static Tensor from_doubles(DType type, std::vector<int64_t> dims, std::span<const double> values);
  static Tensor from_ints(DType type, std::vector<int64_t> dims, std::span<const int64_t> values);

  DType type() const { return type_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t elements() const { return elements_; }
  size_t byte_size() const { return static_cast<size_t>(elements_) * host_bytes(type_); }
  bool is_fill() const { return is_fill_; }
  std::string type_text() const;  // f32[2, 3]

  // The bytes of all elements; a fill is written out.
  std::vector<std::byte> bytes() const;
  // The stored bytes: one element for a fill.
  std::span<const std::byte> stored() const { return {data_->data(), data_->size()}; }
  template <class T>
  std::vector<T> to() const {
    require_type(DTypeOf<T>::value);
    const std::vector<std::byte> all = bytes();
    std::vector<T> out(static_cast<size_t>(elements_));
    for (size_t i = 0; i < out.size(); ++i) out[i] = reinterpret_cast<const T*>(all.data())[i];
    return out;
  }

  double real(int64_t index) const;                   // any type but c64
  int64_t integer(int64_t index) const;               // integers and bool
  std::complex<double> complex(int64_t index) const;  // any type
  std::vector<double> doubles() const;
  std::vector<int64_t> integers() const;

  // The first n along the axis; all if there are no more.
  Tensor head(int64_t axis, int64_t n) const;

  friend bool operator==(const Tensor& a, const Tensor& b);

 private:
  void require_type(DType wanted) const;
  const std::byte* element(int64_t index) const;

  DType type_ = DType::f32;
  bool is_fill_ = false;
  std::vector<int64_t> dims_;
  int64_t elements_ = 1;
  std::shared_ptr<const std::vector<std::byte>> data_ = std::make_shared<std::vector<std::byte>>(4);
};

}  // namespace rlx
