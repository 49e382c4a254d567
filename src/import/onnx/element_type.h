// The element types of ONNX, and how each is carried on the device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "rlx/dtype.h"

namespace rlx::onnx {

// As onnx.proto3 numbers them.
enum class ElementType : int32_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
};
inline constexpr int32_t kLastElementType = 26;

// Nothing for a number that ONNX does not have.
std::optional<ElementType> element_type_of(int32_t number);
// As ONNX writes it: "float16", "uint8".
std::string_view to_string(ElementType type);
// The type that is written so.
std::optional<ElementType> element_type_of(std::string_view name);

// The type of our own that holds its values: int16 is i32, wrapped after arithmetic; float64 is f32, which
// ONNX's tolerance allows; the 4- and 2-bit integers are bytes; floats of 8 and 4 bits are f32, rounded after
// arithmetic. Nothing where there is none: strings, complex128.
std::optional<DType> carrier(ElementType type);
// The ONNX type of a type of our own.
ElementType element_type_of(DType type);

// Types in a file, by input or output, where another type of our own carries them.
using CarriedTypes = std::map<std::string, ElementType>;
// The type in the file of what we carry as `type`.
ElementType type_in_file(const CarriedTypes& carried, const std::string& name, DType type);

int64_t bits_of(ElementType type);  // of one element in raw data; 0 for strings
bool is_integer(ElementType type);  // bool is not
bool is_unsigned(ElementType type);
bool is_float(ElementType type);
// What round_to_format (rlx/ops.h) calls a float of 8 or 4 bits; float8e8m0 is rounded up unless a node says
// otherwise.
std::optional<int> small_float_format(ElementType type);
// The number that such a float has these bits for.
float small_float(ElementType type, unsigned bits);
// Whether integers of this type need to be wrapped after arithmetic in their carrier.
bool is_narrowed(ElementType type);

}  // namespace rlx::onnx
