#include "import/onnx/tensor_data.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <protozero/varint.hpp>

#include "base/checked.h"
#include "import/onnx/problem.h"
#include "ir/infer.h"
#include "rlx/shape.h"

namespace rlx::onnx {
namespace {

template <class... Args>
[[noreturn]] void wrong(const TensorProto& t, std::format_string<Args...> message, Args&&... args) {
  fail(ErrorKind::invalid_file, "the tensor '{}' {}", excerpt(t.name),
       formatted(message, std::forward<Args>(args)...));
}

int64_t elements_of(const TensorProto& t) {
  if (std::ssize(t.dims) > kMaxRank) wrong(t, "has {} axes; {} are the most", t.dims.size(), kMaxRank);
  int64_t elements = 1;
  for (const int64_t d : t.dims) {
    if (d < 0) wrong(t, "has a dimension of {}", d);
  }
  for (const int64_t d : t.dims) {
    if (__builtin_mul_overflow(elements, d, &elements)) wrong(t, "has more elements than 64 bits can count");
  }
  return elements;
}

size_t bytes_needed(const TensorProto& t, int64_t elements) {
  const int64_t bits = bits_of(t.type);
  if (elements > std::numeric_limits<int64_t>::max() / (bits + 8)) wrong(t, "has {} elements", elements);
  return static_cast<size_t>(ceil_div(elements * bits, 8));
}

// Varints, each stored in `width` bytes.
std::vector<std::byte> varints(const TensorProto& t, const std::vector<std::string_view>& pieces,
                               size_t width, size_t most) {
  std::vector<std::byte> out;
  for (const std::string_view piece : pieces) {
    const char* at = piece.data();
    const char* const end = at + piece.size();
    while (at != end) {
      uint64_t value = 0;
      try {
        value = protozero::decode_varint(&at, end);
      } catch (const protozero::exception&) {
        wrong(t, "has data that is cut off");
      }
      if (out.size() + width > most) wrong(t, "has more data than its shape needs");
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);  // little-endian, as everything here
      out.insert(out.end(), bytes, bytes + width);
    }
  }
  return out;
}

std::vector<std::byte> joined(const std::vector<std::string_view>& pieces) {
  std::vector<std::byte> out;
  for (const std::string_view piece : pieces) {
    const auto* bytes = reinterpret_cast<const std::byte*>(piece.data());
    out.insert(out.end(), bytes, bytes + piece.size());
  }
  return out;
}

// Little-endian bytes, in the file or in memory of their own.
struct Bytes {
  std::span<const std::byte> view;
  std::vector<std::byte> owned = {};
};

Bytes own(std::vector<std::byte> bytes) {
  Bytes out;
  out.owned = std::move(bytes);
  out.view = out.owned;
  return out;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// What the message itself holds.
Bytes stored_bytes(const TensorProto& t, size_t needed) {
  if (t.raw) return {bytes_of(*t.raw)};
  const auto fixed = [](const std::vector<std::string_view>& pieces) {
    return pieces.size() == 1 ? Bytes{bytes_of(pieces[0])} : own(joined(pieces));
  };
  switch (t.type) {
    case ElementType::float32:
    case ElementType::complex64:
      return fixed(t.floats);
    case ElementType::float64:
      return fixed(t.doubles);
    case ElementType::int64:
      return own(varints(t, t.int64s, 8, needed));
    case ElementType::uint64:
      return own(varints(t, t.uint64s, 8, needed));
    case ElementType::uint32:
      return own(varints(t, t.uint64s, 4, needed));
    default: {
      const auto width = static_cast<size_t>(std::max<int64_t>(bits_of(t.type) / 8, 1));
      return own(varints(t, t.int32s, width, needed));
    }
  }
}

template <class T>
T element(std::span<const std::byte> bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class From, class To>
Tensor converted(const TensorProto& t, size_t count, std::span<const std::byte> bytes) {
  std::vector<To> out(count);
  for (size_t i = 0; i < count; ++i) {
    const From value = element<From>(bytes, i);
    if constexpr (std::is_same_v<From, uint64_t>) {
      if (value > std::numeric_limits<To>::max()) {
        throw Refused(Refusal::element_type,
                      formatted("the tensor '{}' holds the uint64 {}, which does not fit in 32 bits",
                                excerpt(t.name), value));
      }
    }
    out[i] = static_cast<To>(value);
  }
  return Tensor::of(t.dims, out);
}

// Integers of 4 or 2 bits, the first in the lowest bits.
template <class To>
Tensor unpacked(const TensorProto& t, size_t count, std::span<const std::byte> bytes) {
  const auto bits = static_cast<size_t>(bits_of(t.type));
  const size_t per_byte = 8 / bits;
  std::vector<To> out(count);
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned>(bytes[i / per_byte]);
    const int value = static_cast<int>(byte >> (i % per_byte * bits)) & ((1 << bits) - 1);
    const bool negative = std::is_signed_v<To> && value >> (bits - 1);
    out[i] = static_cast<To>(negative ? value - (1 << bits) : value);
  }
  return Tensor::of(t.dims, out);
}

}  // namespace

Tensor TensorData::tensor(const TensorProto& t) {
  if (t.type == ElementType::string || t.strings > 0)
    throw Refused(Refusal::not_a_tensor, formatted("the tensor '{}' holds strings", excerpt(t.name)));
  const auto dtype = carrier(t.type);
  if (!dtype) {
    throw Refused(Refusal::element_type,
                  formatted("the tensor '{}' has the element type {}, which is not supported",
                            excerpt(t.name), to_string(t.type)));
  }
  const int64_t elements = elements_of(t);
  const size_t needed = bytes_needed(t, elements);
  Bytes stored;
  std::shared_ptr<const void> owner = model_;
  if (t.external) {
    std::tie(stored.view, owner) = external(t);
  } else {
    stored = stored_bytes(t, needed);
  }
  if (stored.view.size() != needed) {
    wrong(t, "of type {}{} needs {} bytes, but has {}", to_string(t.type), Shape(t.dims).text(), needed,
          stored.view.size());
  }
  const auto count = static_cast<size_t>(elements);
  switch (t.type) {
    case ElementType::float64:
      return converted<double, float>(t, count, stored.view);
    case ElementType::int16:
      return converted<int16_t, int32_t>(t, count, stored.view);
    case ElementType::uint16:
      return converted<uint16_t, int32_t>(t, count, stored.view);
    case ElementType::uint64:
      return converted<uint64_t, uint32_t>(t, count, stored.view);
    case ElementType::int4:
    case ElementType::int2:
      return unpacked<int8_t>(t, count, stored.view);
    case ElementType::uint4:
    case ElementType::uint2:
      return unpacked<uint8_t>(t, count, stored.view);
    default:
      break;
  }
  if (t.type == ElementType::boolean &&
      std::ranges::any_of(stored.view, [](std::byte b) { return b > std::byte(1); }))
    wrong(t, "holds bools that are neither 0 nor 1");
  if (!stored.owned.empty()) return Tensor(*dtype, t.dims, std::move(stored.owned));
  return Tensor(*dtype, t.dims, stored.view, owner);
}

std::pair<std::span<const std::byte>, std::shared_ptr<const void>> TensorData::external(
    const TensorProto& t) {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  const auto number = [&](std::string_view key, std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      wrong(t, "has external data with the {} '{}', which is not a number of bytes", key, excerpt(text));
    return value;
  };
  for (const auto& [key, value] : t.external_data) {
    if (key == "location") location = value;
    if (key == "offset") offset = number(key, value);
    if (key == "length") length = number(key, value);
  }
  if (folder_.empty())
    wrong(t, "is in the file '{}', but the model was not read from a folder", excerpt(location));
  auto& file = files_[location];
  if (!file) {
    try {
      file = std::make_shared<const FileBytes>(folder_, location);
    } catch (const Error& e) {
      files_.erase(location);
      throw e.within(formatted("the tensor '{}'", excerpt(t.name)));
    }
  }
  const std::span<const std::byte> all = file->bytes();
  if (offset > all.size() || (length && *length > all.size() - offset)) {
    wrong(t, "has {} bytes from byte {} of '{}' on, which has only {}", length.value_or(0), offset,
          excerpt(location), all.size());
  }
  return {all.subspan(offset, length.value_or(all.size() - offset)), file};
}

}  // namespace rlx::onnx
