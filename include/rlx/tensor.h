// A tensor on the host: element type, shape and row-major bytes.
//
//   auto x = rlx::Tensor::of({2, 3}, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f});
//   for (float v : x.span<float>()) ...
//   std::cout << x;                       // f32[2, 3] [[1, 2, 3], [4, 5, 6]]
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/dtype.h"
#include "rlx/export.h"
#include "rlx/half.h"

RLX_EXPORT_BEGIN
namespace rlx {

// The C++ type that stands for a DType in the typed calls below.
template <class T>
struct DTypeOf;
// clang-format off
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<f16> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<uint32_t> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::bool_; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::i8; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<std::complex<float>> { static constexpr DType value = DType::c64; };
// clang-format on

// float, f16, bf16, int32_t, uint32_t, int64_t, bool, int8_t, uint8_t, std::complex<float>.
template <class T>
concept ElementType = requires { DTypeOf<T>::value; };

// std::vector<float>, std::span<const int64_t>, std::array<uint8_t, 3> and the like.
template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                       ElementType<std::remove_cv_t<std::ranges::range_value_t<R>>>;

// A view of bytes together with what keeps them alive; copies share both. The bytes never change through a
// Tensor. Reading one from several threads is safe.
class Tensor {
 public:
  Tensor();  // the f32 scalar 0
  // What was moved from is the f32 scalar 0 afterwards.
  Tensor(Tensor&& other) noexcept : Tensor() { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  ~Tensor() = default;
  // Takes over the bytes; their number must match the shape.
  Tensor(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);
  // A view of memory that `owner` keeps alive: a mapped file, a buffer of another library. Nothing is copied.
  // With an empty owner the caller promises that the memory outlives the tensor and all its copies.
  Tensor(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
         std::shared_ptr<const void> owner);

  // Elements that are made when they are needed: weights that a file holds in another type, for instance. The
  // function writes any whole elements, from that byte on; several threads may call it.
  using Source = std::function<void(size_t first_byte, std::span<std::byte> into)>;
  static Tensor made_by(DType dtype, std::vector<int64_t> shape, Source source);

  // Copies the values of any contiguous range: of({2, 2}, std::vector<float>{...}), of({3}, my_span).
  template <ElementRange R>
  static Tensor of(std::vector<int64_t> shape, const R& values) {
    return copy(DTypeOf<std::remove_cv_t<std::ranges::range_value_t<R>>>::value, std::move(shape),
                std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values))));
  }
  template <ElementType T>
  static Tensor of(std::vector<int64_t> shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  // With the type spelled out: of<float>({3}, {0, 1, 2}).
  template <ElementType T>
  static Tensor of(std::vector<int64_t> shape, std::type_identity_t<std::span<const T>> values) {
    return copy(DTypeOf<T>::value, std::move(shape), std::as_bytes(values));
  }
  template <ElementType T>
  static Tensor scalar(T value) {
    return of<T>({}, std::span<const T>(&value, 1));
  }
  // One value everywhere, stored once until all elements are requested.
  static Tensor full(DType dtype, std::vector<int64_t> shape, double value);
  static Tensor zeros(DType dtype, std::vector<int64_t> shape) { return full(dtype, std::move(shape), 0); }
  // Converted as `cast` does: floats to nearest even; to integers truncated and saturated, NaN becomes 0. For
  // an encoded type as `quantize` does: several scales are tried, and numbers that are not finite are errors.
  static Tensor from_doubles(DType dtype, std::vector<int64_t> shape, std::span<const double> values);
  // Integers that do not fit keep their low bits.
  static Tensor from_ints(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t elements() const { return elements_; }
  size_t byte_size() const { return host_bytes_of(dtype_, elements_); }
  std::string type_text() const;  // f32[2, 3]

  // The elements in row-major order. T must be the C++ type of dtype(), and a foreign view aligned for it. An
  // encoded type has none: doubles() decodes.
  template <ElementType T>
  std::span<const T> span() const {
    const std::span<const std::byte> all = typed_bytes(DTypeOf<T>::value, alignof(T));
    return {reinterpret_cast<const T*>(all.data()), static_cast<size_t>(elements_)};
  }
  // A copy of them, from memory of any alignment.
  template <ElementType T>
  std::vector<T> to_vector() const {
    const std::span<const std::byte> all = typed_bytes(DTypeOf<T>::value, 1);
    std::vector<T> out(static_cast<size_t>(elements_));
    for (size_t i = 0; i < out.size(); ++i) out[i] = load<T>(all.data() + i * sizeof(T));
    return out;
  }
  // The value of a tensor with one element.
  template <ElementType T>
  T item() const {
    require_one_element();
    return load<T>(typed_bytes(DTypeOf<T>::value, 1).data());
  }

  // One element by its row-major index, converted from whatever type the tensor has.
  double real(int64_t index) const;                   // any type, decoded; the real part of a c64
  int64_t integer(int64_t index) const;               // integers and bool
  std::complex<double> complex(int64_t index) const;  // any type
  std::vector<double> doubles() const;
  std::vector<int64_t> integers() const;

  // The bytes of all elements. Of a tensor that full() or made_by() returned, they stay in memory from then
  // on.
  std::span<const std::byte> bytes() const;
  // Copies a part of them, whole elements, and keeps nothing.
  void read(size_t first_byte, std::span<std::byte> into) const;
  // Whether bytes() costs nothing.
  bool is_stored() const { return !uniform_ && !made_; }
  // Whether it was made by full() or zeros().
  bool is_uniform() const { return uniform_ != nullptr; }

  // The first n along an axis; all of them if there are fewer. Negative axes count from the end.
  Tensor head(int64_t axis, int64_t n) const;

  // Equal types, shapes and bytes.
  friend bool operator==(const Tensor& a, const Tensor& b);

 private:
  struct Uniform;
  struct Made;
  template <ElementType T>
  static T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  void swap(Tensor& other) noexcept;
  static Tensor copy(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes);
  std::span<const std::byte> typed_bytes(DType wanted, size_t alignment) const;
  void require_one_element() const;
  const std::byte* element(int64_t index) const;

  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_;
  int64_t elements_ = 1;
  std::span<const std::byte> bytes_;   // of all elements, if they are stored
  std::shared_ptr<const void> owner_;  // of bytes_
  std::shared_ptr<Uniform> uniform_;   // the one value, and all elements once they have been requested
  std::shared_ptr<Made> made_;         // the same with a function that makes them
};

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// The type and the values; for a long tensor, only the first and last along each axis.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace rlx
RLX_EXPORT_END
