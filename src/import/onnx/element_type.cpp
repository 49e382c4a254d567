#include "import/onnx/element_type.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"

namespace rlx::onnx {
namespace {

enum class Family : uint8_t { none, integer, unsigned_integer, floating, boolean, complex };

struct Row {
  std::string_view name;
  int64_t bits;
  Family family;
  std::optional<DType> carrier;
};

// In the order of the enum.
constexpr Row kRows[] = {
    {"undefined", 0, Family::none, std::nullopt},
    {"float", 32, Family::floating, DType::f32},
    {"uint8", 8, Family::unsigned_integer, DType::u8},
    {"int8", 8, Family::integer, DType::i8},
    {"uint16", 16, Family::unsigned_integer, DType::i32},
    {"int16", 16, Family::integer, DType::i32},
    {"int32", 32, Family::integer, DType::i32},
    {"int64", 64, Family::integer, DType::i64},
    {"string", 0, Family::none, std::nullopt},
    {"bool", 8, Family::boolean, DType::bool_},
    {"float16", 16, Family::floating, DType::f16},
    {"double", 64, Family::floating, DType::f32},
    {"uint32", 32, Family::unsigned_integer, DType::u32},
    {"uint64", 64, Family::unsigned_integer, DType::u32},
    {"complex64", 64, Family::complex, DType::c64},
    {"complex128", 128, Family::complex, std::nullopt},
    {"bfloat16", 16, Family::floating, DType::bf16},
    {"float8e4m3fn", 8, Family::floating, DType::f32},
    {"float8e4m3fnuz", 8, Family::floating, DType::f32},
    {"float8e5m2", 8, Family::floating, DType::f32},
    {"float8e5m2fnuz", 8, Family::floating, DType::f32},
    {"uint4", 4, Family::unsigned_integer, DType::u8},
    {"int4", 4, Family::integer, DType::i8},
    {"float4e2m1", 4, Family::floating, DType::f32},
    {"float8e8m0", 8, Family::floating, DType::f32},
    {"uint2", 2, Family::unsigned_integer, DType::u8},
    {"int2", 2, Family::integer, DType::i8},
};
static_assert(std::size(kRows) == kLastElementType + 1);

const Row& row(ElementType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

std::optional<ElementType> element_type_of(int32_t number) {
  if (number < 0 || number > kLastElementType) return std::nullopt;
  return static_cast<ElementType>(number);
}

std::optional<ElementType> element_type_of(std::string_view name) {
  const auto it = std::ranges::find(kRows, name, &Row::name);
  if (it == std::end(kRows)) return std::nullopt;
  return static_cast<ElementType>(it - kRows);
}

std::string_view to_string(ElementType type) { return row(type).name; }
std::optional<DType> carrier(ElementType type) { return row(type).carrier; }

ElementType element_type_of(DType type) {
  switch (value_dtype(type)) {
    case DType::f32:
      return ElementType::float32;
    case DType::f16:
      return ElementType::float16;
    case DType::bf16:
      return ElementType::bfloat16;
    case DType::i32:
      return ElementType::int32;
    case DType::u32:
      return ElementType::uint32;
    case DType::i64:
      return ElementType::int64;
    case DType::bool_:
      return ElementType::boolean;
    case DType::i8:
      return ElementType::int8;
    case DType::u8:
      return ElementType::uint8;
    case DType::c64:
      return ElementType::complex64;
    default:
      check(false, "an encoded type has the value type f32");
      return ElementType::undefined;
  }
}

ElementType type_in_file(const CarriedTypes& carried, const std::string& name, DType type) {
  const auto it = carried.find(name);
  return it == carried.end() ? element_type_of(type) : it->second;
}

int64_t bits_of(ElementType type) { return row(type).bits; }
bool is_integer(ElementType type) {
  return row(type).family == Family::integer || row(type).family == Family::unsigned_integer;
}
bool is_unsigned(ElementType type) { return row(type).family == Family::unsigned_integer; }
bool is_float(ElementType type) { return row(type).family == Family::floating; }
std::optional<int> small_float_format(ElementType type) {
  switch (type) {
    case ElementType::float8e4m3fn:
      return 0;
    case ElementType::float8e4m3fnuz:
      return 1;
    case ElementType::float8e5m2:
      return 2;
    case ElementType::float8e5m2fnuz:
      return 3;
    case ElementType::float4e2m1:
      return 4;
    case ElementType::float8e8m0:
      return 5;
    default:
      return std::nullopt;
  }
}

float small_float(ElementType type, unsigned bits) {
  if (type == ElementType::float8e8m0)
    return bits == 255 ? std::numeric_limits<float>::quiet_NaN()
                       : std::ldexp(1.0F, static_cast<int>(bits) - 127);
  struct Layout {
    unsigned mantissa_bits, exponent_bits;
    int bias;
  };
  static constexpr Layout layouts[] = {{3, 4, 7}, {3, 4, 8}, {2, 5, 15}, {2, 5, 16}, {1, 2, 1}};
  const auto& [mantissa_bits, exponent_bits, bias] = layouts[small_float_format(type).value()];
  const unsigned sign = bits >> (mantissa_bits + exponent_bits);
  const unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const bool fnuz = type == ElementType::float8e4m3fnuz || type == ElementType::float8e5m2fnuz;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (fnuz && bits == 0x80) return kNan;
  if (type == ElementType::float8e4m3fn && (bits & 0x7f) == 0x7f) return kNan;
  float magnitude =
      std::ldexp(static_cast<float>(mantissa | (exponent > 0 ? 1u << mantissa_bits : 0u)),
                 static_cast<int>(std::max(exponent, 1u)) - bias - static_cast<int>(mantissa_bits));
  if (type == ElementType::float8e5m2 && exponent == 31)
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : kNan;
  return sign != 0 ? -magnitude : magnitude;
}

bool is_narrowed(ElementType type) { return is_integer(type) && (bits_of(type) == 16 || bits_of(type) < 8); }

}  // namespace rlx::onnx
