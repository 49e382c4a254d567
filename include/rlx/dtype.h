// The element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  i32,
  u32,
  i64,    // 64 bits on the host and in shape arithmetic, stored as i32 on the device (checked when uploaded)
  bool_,  // one byte on the host
  i8,
  u8,
  c64,  // two f32: real, imaginary
  // Encoded types: blocks of elements along the last axis, as GGUF files store them (docs/encodings.md). Only
  // inputs, params and constants have them; every op sees their values as f32.
  q8_0,
  q4_k,
  q4_0,
  q6_k,
  q5_k,
  q3_k,
  q2_k,
  q4_1,
  q5_0,
  q5_1,
  q8_1,
  q8_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  nvfp4,
  tq1_0,
  tq2_0,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq1_s,
  iq1_m,
};

// Those whose elements are stored one by one.
inline constexpr DType kAllDTypes[] = {DType::f32, DType::f16,   DType::bf16, DType::i32, DType::u32,
                                       DType::i64, DType::bool_, DType::i8,   DType::u8,  DType::c64};

std::string_view to_string(DType type);
std::optional<DType> parse_dtype(std::string_view text);

constexpr bool is_encoded(DType t) { return t > DType::c64; }
// The type of an element's value: f32 for an encoded type, otherwise the type itself.
constexpr DType value_dtype(DType t) { return is_encoded(t) ? DType::f32 : t; }
int64_t block_elements(DType type);  // that are stored together; 1 for types that are not encoded

size_t host_bytes(DType type);  // of one element in a host tensor; not for encoded types
// Of a number of elements in a host tensor, whole blocks if the type is encoded.
size_t host_bytes_of(DType type, int64_t elements);

constexpr bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }
constexpr bool is_integer(DType t) {
  return t == DType::i32 || t == DType::u32 || t == DType::i64 || t == DType::i8 || t == DType::u8;
}
constexpr bool is_signed_integer(DType t) { return t == DType::i32 || t == DType::i64 || t == DType::i8; }

}  // namespace rlx
RLX_EXPORT_END
