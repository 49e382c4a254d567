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

// What a register of that type keeps of a number.
constexpr int64_t wrapped(int64_t v, DType dtype) {
  switch (dtype) {
    case DType::i32:
    case DType::i64:
      return static_cast<int32_t>(v);
    case DType::u32:
      return static_cast<uint32_t>(v);
    case DType::i8:
      return static_cast<int8_t>(v);
    case DType::u8:
      return static_cast<uint8_t>(v);
    default:
      return v;
  }
}

}  // namespace rlx
