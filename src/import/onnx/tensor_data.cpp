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

// Little-endian bytes, and what keeps them: the file, or memory of their own.
struct Bytes {
  std::span<const std::byte> view;
  std::shared_ptr<const void> owner = nullptr;
};

Bytes own(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {*owner, owner};
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

// The elements as those of another type. They are made when they are uploaded: a large model is not held
// twice.
template <class To, class Element>
Tensor converted(const TensorProto& t, Element element_at) {
  return Tensor::made_by(*carrier(t.type), t.dims,
                         [element_at](size_t first_byte, std::span<std::byte> into) {
                           const size_t first = first_byte / sizeof(To);
                           for (size_t i = 0; i < into.size() / sizeof(To); ++i) {
                             const auto value = static_cast<To>(element_at(first + i));
                             std::memcpy(into.data() + i * sizeof(To), &value, sizeof(To));
                           }
                         });
}

template <class From, class To>
Tensor converted(const TensorProto& t, const Bytes& bytes) {
  return converted<To>(t, [bytes](size_t i) { return element<From>(bytes.view, i); });
}

// Integers of 4 or 2 bits, the first in the lowest bits.
template <class To, int kBits>
Tensor unpacked(const TensorProto& t, const Bytes& bytes) {
  return converted<To>(t, [bytes](size_t i) {
    constexpr size_t kPerByte = 8 / kBits;
    const auto byte = static_cast<unsigned>(bytes.view[i / kPerByte]);
    const int value = static_cast<int>(byte >> (i % kPerByte * kBits)) & ((1 << kBits) - 1);
    const bool negative = std::is_signed_v<To> && value >> (kBits - 1);
    return negative ? value - (1 << kBits) : value;
  });
}

void expect_32_bits(const TensorProto& t, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size() / 8; ++i) {
    const auto value = element<uint64_t>(bytes, i);
    if (value <= std::numeric_limits<uint32_t>::max()) continue;
    throw Refused(Refusal::element_type,
                  formatted("the tensor '{}' holds the uint64 {}, which does not fit in 32 bits",
                            excerpt(t.name), value));
  }
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
  if (t.external) {
    std::tie(stored.view, stored.owner) = external(t);
  } else {
    stored = stored_bytes(t, needed);
    if (!stored.owner) stored.owner = model_;
  }
  if (stored.view.size() != needed) {
    wrong(t, "of type {}{} needs {} bytes, but has {}", to_string(t.type), Shape(t.dims).text(), needed,
          stored.view.size());
  }
  if (small_float_format(t.type)) {
    return converted<float>(t, [stored, type = t.type](size_t i) {
      const bool whole = bits_of(type) == 8;
      const auto byte = static_cast<unsigned>(stored.view[whole ? i : i / 2]);
      return small_float(type, whole ? byte : byte >> (i % 2 * 4) & 15);
    });
  }
  switch (t.type) {
    case ElementType::float64:
      return converted<double, float>(t, stored);
    case ElementType::int16:
      return converted<int16_t, int32_t>(t, stored);
    case ElementType::uint16:
      return converted<uint16_t, int32_t>(t, stored);
    case ElementType::uint64:
      expect_32_bits(t, stored.view);
      return converted<uint64_t, uint32_t>(t, stored);
    case ElementType::int4:
      return unpacked<int8_t, 4>(t, stored);
    case ElementType::int2:
      return unpacked<int8_t, 2>(t, stored);
    case ElementType::uint4:
      return unpacked<uint8_t, 4>(t, stored);
    case ElementType::uint2:
      return unpacked<uint8_t, 2>(t, stored);
    default:
      break;
  }
  if (t.type == ElementType::boolean &&
      std::ranges::any_of(stored.view, [](std::byte b) { return b > std::byte(1); }))
    wrong(t, "holds bools that are neither 0 nor 1");
  return Tensor(*dtype, t.dims, stored.view, stored.owner);
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
