// The integers of each type, as the device has them.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx {

struct IntegerRange {
  int64_t low, high;
};

// i64 has the range of i32, which is how the device stores it.
constexpr IntegerRange integer_range(DType dtype) {
  switch (dtype) {
    case DType::u32:
      return {0, UINT32_MAX};
    case DType::u8:
      return {0, 255};
    case DType::i8:
      return {-128, 127};
    case DType::bool_:
      return {0, 1};
    default:
      return {INT32_MIN, INT32_MAX};
  }
}

// What a value of that type keeps of a number. An i64 keeps all: the device reports those that need more than
// 32 bits (Lowering::overflow).
constexpr int64_t wrapped(int64_t v, DType dtype) {
  switch (dtype) {
    case DType::i32:
      return static_cast<int32_t>(v);
    case DType::u32:
      return static_cast<uint32_t>(v);
    case DType::i8:
      return static_cast<int8_t>(v);
    case DType::u8:
      return static_cast<uint8_t>(v);
    case DType::bool_:
      return v != 0;
    default:
      return v;
  }
}

}  // namespace rlx
