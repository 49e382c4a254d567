#include "rlx/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <ostream>

#include "base/border.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/half.h"
#include "encodings/encoding.h"
#include "ir/dtype.h"
#include "ir/view.h"
#include "rlx/shape.h"

namespace rlx {
namespace {

int64_t count(DType dtype, const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0) fail(ErrorKind::invalid_argument, "a tensor cannot have the dimension {}", d);
    n = checked_mul(n, d);
  }
  checked_mul(n, 8);  // the bytes of the largest type
  if (is_encoded(dtype)) expect_whole_blocks(dtype, Shape(shape));
  return n;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
T loaded(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Truncates towards zero, saturates, and turns NaN into 0.
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
    default:
      fail(ErrorKind::internal, "a value of the encoded type {} was to be stored by itself", to_string(type));
  }
}

void check_count(DType dtype, const std::vector<int64_t>& shape, size_t count) {
  const int64_t wanted = product(shape);
  if (wanted < 0 || static_cast<uint64_t>(wanted) != count) {
    fail(ErrorKind::invalid_argument, "a tensor {}[{}] has {} elements, but {} values are given for it",
         to_string(dtype), joined(shape), wanted, count);
  }
}

std::vector<std::byte> encoded(DType type, std::span<const double> values) {
  const Encoding& e = encoding_of(type);
  if (!e.encode) {
    fail(ErrorKind::invalid_argument,
         "there is no encoder for {}: such a tensor is made of the blocks of a file", e.name);
  }
  const auto length = static_cast<size_t>(e.block_elements);
  const auto bytes = static_cast<size_t>(e.block_bytes);
  std::vector<std::byte> out((values.size() + length - 1) / length * bytes);
  std::vector<float> block(length), back(length);
  const auto finite = [](float v) { return std::isfinite(v); };
  for (size_t first = 0; first < values.size(); first += length) {
    std::ranges::fill(block, 0.0F);
    std::ranges::transform(values.subspan(first, std::min(length, values.size() - first)), block.begin(),
                           [](double v) { return static_cast<float>(v); });
    if (const auto odd = std::ranges::find_if_not(block, finite); odd != block.end()) {
      fail(ErrorKind::invalid_argument, "element {} is {}; a block of {} holds finite numbers",
           first + static_cast<size_t>(odd - block.begin()), *odd, e.name);
    }
    std::byte* const made = out.data() + first / length * bytes;
    e.encode(block.data(), made);
    e.decode(made, back.data());
    if (!std::ranges::all_of(back, finite)) {
      const auto [low, high] = std::ranges::minmax(block);
      fail(ErrorKind::invalid_argument,
           "the elements from {} on lie between {} and {}, more than the scale of a block of {} can hold",
           first, low, high, e.name);
    }
  }
  return out;
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

struct Tensor::Uniform {
  std::vector<std::byte> value;  // one element, or one block if the type is encoded
  std::once_flag expand;
  std::vector<std::byte> all;
};

struct Tensor::Made {
  Source source;
  std::once_flag expand;
  std::vector<std::byte> all;
};

Tensor::Tensor() {
  static constexpr std::byte zero[4] = {};
  bytes_ = zero;
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(dtype_, other.dtype_);
  shape_.swap(other.shape_);
  std::swap(elements_, other.elements_);
  std::swap(bytes_, other.bytes_);
  owner_.swap(other.owner_);
  uniform_.swap(other.uniform_);
  made_.swap(other.made_);
}

Tensor::Tensor(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner)
    : dtype_(dtype),
      shape_(std::move(shape)),
      elements_(count(dtype, shape_)),
      bytes_(bytes),
      owner_(std::move(owner)) {
  if (bytes.size() != byte_size()) {
    fail(ErrorKind::invalid_argument, "a tensor of type {} needs {} bytes, not {}", type_text(), byte_size(),
         bytes.size());
  }
}

namespace {
std::shared_ptr<const std::vector<std::byte>> shared(std::vector<std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}
}  // namespace

Tensor::Tensor(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) try {
  auto owner = shared(std::move(bytes));
  const std::span<const std::byte> view(*owner);
  *this = Tensor(dtype, std::move(shape), view, std::move(owner));
} catch (...) {
  throw_as_error("making a tensor");
}

Tensor Tensor::copy(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes) try {
  return Tensor(dtype, std::move(shape), std::vector<std::byte>(bytes.begin(), bytes.end()));
} catch (...) {
  throw_as_error("making a tensor");
}

Tensor Tensor::full(DType dtype, std::vector<int64_t> shape, double value) try {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = std::move(shape);
  t.elements_ = count(dtype, t.shape_);
  t.uniform_ = std::make_shared<Uniform>();
  if (is_encoded(dtype)) {
    t.uniform_->value =
        encoded(dtype, std::vector<double>(static_cast<size_t>(block_elements(dtype)), value));
    return t;
  }
  t.uniform_->value.resize(host_bytes(dtype));
  store_double(dtype, t.uniform_->value.data(), value);
  return t;
} catch (...) {
  throw_as_error("making a tensor");
}

Tensor Tensor::made_by(DType dtype, std::vector<int64_t> shape, Source source) try {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = std::move(shape);
  t.elements_ = count(dtype, t.shape_);
  t.made_ = std::make_shared<Made>(std::move(source));
  return t;
} catch (...) {
  throw_as_error("making a tensor");
}

Tensor Tensor::from_doubles(DType dtype, std::vector<int64_t> shape, std::span<const double> values) try {
  check_count(dtype, shape, values.size());
  if (is_encoded(dtype)) return Tensor(dtype, std::move(shape), encoded(dtype, values));
  std::vector<std::byte> bytes(values.size() * host_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i)
    store_double(dtype, bytes.data() + i * host_bytes(dtype), values[i]);
  return Tensor(dtype, std::move(shape), std::move(bytes));
} catch (...) {
  throw_as_error("making a tensor");
}

Tensor Tensor::from_ints(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values) try {
  check_count(dtype, shape, values.size());
  if (is_encoded(dtype))
    return from_doubles(dtype, std::move(shape), std::vector<double>(values.begin(), values.end()));
  std::vector<std::byte> bytes(values.size() * host_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i)
    store_int(dtype, bytes.data() + i * host_bytes(dtype), values[i]);
  return Tensor(dtype, std::move(shape), std::move(bytes));
} catch (...) {
  throw_as_error("making a tensor");
}

std::string Tensor::type_text() const { return std::string(to_string(dtype_)) + Shape(shape_).text(); }

std::span<const std::byte> Tensor::bytes() const try {
  if (is_stored()) return bytes_;
  std::vector<std::byte>& all = uniform_ ? uniform_->all : made_->all;
  std::call_once(uniform_ ? uniform_->expand : made_->expand, [&] {
    try {
      all.resize(byte_size());
    } catch (const std::bad_alloc&) {
      fail(ErrorKind::out_of_memory, "the host has no room for the {} bytes of a tensor {}", byte_size(),
           type_text());
    }
    read(0, all);
  });
  return all;
} catch (...) {
  throw_as_error("reading a tensor");
}

void Tensor::read(size_t first_byte, std::span<std::byte> into) const try {
  if (first_byte > byte_size() || into.size() > byte_size() - first_byte) {
    fail(ErrorKind::invalid_argument,
         "{} bytes from byte {} on were requested from a tensor {} with {} bytes", into.size(), first_byte,
         type_text(), byte_size());
  }
  if (into.empty()) return;
  if (made_) {
    made_->source(first_byte, into);
  } else if (uniform_) {
    const std::vector<std::byte>& value = uniform_->value;
    for (size_t at = 0; at < into.size(); at += value.size())
      std::memcpy(into.data() + at, value.data(), value.size());
  } else {
    std::memcpy(into.data(), bytes_.data() + first_byte, into.size());
  }
} catch (...) {
  throw_as_error("reading a tensor");
}

std::span<const std::byte> Tensor::typed_bytes(DType wanted, size_t alignment) const {
  if (is_encoded(dtype_)) {
    fail(
        ErrorKind::invalid_argument,
        "the tensor has the encoded type {}, whose elements are not stored one by one; read them with real() "
        "or doubles(), or the blocks with bytes()",
        to_string(dtype_));
  }
  if (dtype_ != wanted) {
    fail(ErrorKind::invalid_argument, "the tensor has type {}, not {}", to_string(dtype_), to_string(wanted));
  }
  const std::span<const std::byte> all = bytes();
  if (reinterpret_cast<uintptr_t>(all.data()) % alignment != 0) {
    fail(ErrorKind::invalid_argument,
         "the memory of this {} tensor is not aligned to {} bytes; read it with bytes() or real()",
         type_text(), alignment);
  }
  return all;
}

void Tensor::require_one_element() const {
  if (elements_ != 1) {
    fail(ErrorKind::invalid_argument, "the tensor is {} and has {} elements; item() needs one", type_text(),
         elements_);
  }
}

// For an encoded type the block that holds it.
const std::byte* Tensor::element(int64_t index) const {
  if (index < 0 || index >= elements_) {
    fail(ErrorKind::invalid_argument, "element {} was requested from a tensor {} with {} elements", index,
         type_text(), elements_);
  }
  if (uniform_) return uniform_->value.data();
  const int64_t block = block_elements(dtype_);
  return bytes().data() + host_bytes_of(dtype_, index / block * block);
}

double Tensor::real(int64_t index) const {
  const std::byte* at = element(index);
  switch (dtype_) {
    case DType::f32:
      return loaded<float>(at);
    case DType::f16:
      return float_from_f16(loaded<uint16_t>(at));
    case DType::bf16:
      return float_from_bf16(loaded<uint16_t>(at));
    case DType::c64:
      return loaded<std::complex<float>>(at).real();
    default:
      if (is_encoded(dtype_)) {
        const Encoding& e = encoding_of(dtype_);
        std::vector<float> block(static_cast<size_t>(e.block_elements));
        e.decode(at, block.data());
        return block[static_cast<size_t>(index % e.block_elements)];
      }
      return static_cast<double>(integer(index));
  }
}

int64_t Tensor::integer(int64_t index) const {
  const std::byte* at = element(index);
  switch (dtype_) {
    case DType::i32:
      return loaded<int32_t>(at);
    case DType::u32:
      return loaded<uint32_t>(at);
    case DType::i64:
      return loaded<int64_t>(at);
    case DType::bool_:
      return loaded<uint8_t>(at) != 0;
    case DType::i8:
      return loaded<int8_t>(at);
    case DType::u8:
      return loaded<uint8_t>(at);
    default:
      fail(ErrorKind::invalid_argument, "the tensor has type {}, which is not an integer", to_string(dtype_));
  }
}

std::complex<double> Tensor::complex(int64_t index) const {
  if (dtype_ != DType::c64) return real(index);
  return std::complex<double>(loaded<std::complex<float>>(element(index)));
}

std::vector<double> Tensor::doubles() const try {
  std::vector<double> out(static_cast<size_t>(elements_));
  if (is_encoded(dtype_)) {
    const Encoding& e = encoding_of(dtype_);
    std::vector<float> block(static_cast<size_t>(e.block_elements));
    for (int64_t i = 0; i < elements_; i += e.block_elements) {
      e.decode(element(i), block.data());
      std::ranges::copy(block, out.begin() + i);
    }
    return out;
  }
  for (int64_t i = 0; i < elements_; ++i) out[static_cast<size_t>(i)] = real(i);
  return out;
} catch (...) {
  throw_as_error("reading a tensor");
}

std::vector<int64_t> Tensor::integers() const try {
  std::vector<int64_t> out(static_cast<size_t>(elements_));
  for (int64_t i = 0; i < elements_; ++i) out[static_cast<size_t>(i)] = integer(i);
  return out;
} catch (...) {
  throw_as_error("reading a tensor");
}

Tensor Tensor::head(int64_t axis, int64_t n) const try {
  if (axis < -rank() || axis >= rank()) {
    fail(ErrorKind::invalid_argument, "axis {} does not exist in a tensor {}", axis, type_text());
  }
  const auto at = static_cast<size_t>(normal_axis(axis, rank()));
  std::vector<int64_t> shape = shape_;
  shape[at] = std::clamp<int64_t>(n, 0, shape[at]);
  if (is_encoded(dtype_)) expect_whole_blocks(dtype_, Shape(shape));
  const auto tail = static_cast<std::ptrdiff_t>(at) + 1;
  const int64_t row = product({shape.begin() + tail, shape.end()});
  const size_t stride = host_bytes_of(dtype_, shape_[at] * row);
  const size_t taken = host_bytes_of(dtype_, shape[at] * row);
  const std::span<const std::byte> source = bytes();
  std::vector<std::byte> out;
  for (size_t begin = 0; begin < source.size(); begin += stride) {
    const auto part = source.subspan(begin, taken);
    out.insert(out.end(), part.begin(), part.end());
  }
  return Tensor(dtype_, std::move(shape), std::move(out));
} catch (...) {
  throw_as_error("cutting a tensor");
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.dtype_ != b.dtype_ || a.shape_ != b.shape_) return false;
  if (a.uniform_ && b.uniform_) return a.elements_ == 0 || a.uniform_->value == b.uniform_->value;
  return std::ranges::equal(a.bytes(), b.bytes());
}

// --- Text ---

namespace {

constexpr int64_t kEdge = 3;            // elements shown at both ends of a long axis
constexpr int64_t kShownElements = 64;  // a tensor with at most this many is shown whole

// The sign of a NaN means nothing.
double without_sign(double value) { return std::isnan(value) ? std::abs(value) : value; }

std::string element_text(const Tensor& t, int64_t index) {
  if (t.dtype() == DType::c64) {
    const std::complex<double> c = t.complex(index);
    return formatted("{:.6g}{:+.6g}i", without_sign(c.real()), without_sign(c.imag()));
  }
  if (t.dtype() == DType::bool_) return t.integer(index) ? "true" : "false";
  return is_float(value_dtype(t.dtype())) ? formatted("{:.6g}", without_sign(t.real(index)))
                                          : std::to_string(t.integer(index));
}

void append_axis(std::string& out, const Tensor& t, int64_t axis, int64_t first) {
  if (axis == t.rank()) {
    out += element_text(t, first);
    return;
  }
  const int64_t length = t.shape()[static_cast<size_t>(axis)];
  const int64_t step = product({t.shape().begin() + axis + 1, t.shape().end()});
  const bool whole = t.elements() <= kShownElements || length <= 2 * kEdge;
  out += "[";
  for (int64_t i = 0; i < length; ++i) {
    if (i > 0) out += ", ";
    if (!whole && i == kEdge) {
      out += "..., ";
      i = length - kEdge;
    }
    append_axis(out, t, axis + 1, first + i * step);
  }
  out += "]";
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  std::string out = tensor.type_text() + " ";
  append_axis(out, tensor, 0, 0);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace rlx
