// The element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

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
};

inline constexpr DType kAllDTypes[] = {DType::f32, DType::f16,   DType::bf16, DType::i32, DType::u32,
                                       DType::i64, DType::bool_, DType::i8,   DType::u8,  DType::c64};

std::string_view to_string(DType type);
std::optional<DType> parse_dtype(std::string_view text);

size_t host_bytes(DType type);  // of one element in a host tensor

constexpr bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }
constexpr bool is_integer(DType t) {
  return t == DType::i32 || t == DType::u32 || t == DType::i64 || t == DType::i8 || t == DType::u8;
}
constexpr bool is_signed_integer(DType t) { return t == DType::i32 || t == DType::i64 || t == DType::i8; }

}  // namespace rlx
