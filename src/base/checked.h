// Integer arithmetic that refuses to overflow: sizes come from users and files.
#pragma once

#include <cstdint>
#include <limits>

#include "base/fail.h"

namespace rlx {

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) fail("the sum {} + {} does not fit in 64 bits", a, b);
  return r;
}

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) fail("the product {} * {} does not fit in 64 bits", a, b);
  return r;
}

// A number that goes into a shader parameter.
inline uint32_t to_u32(int64_t n) {
  if (n < 0 || n > std::numeric_limits<uint32_t>::max()) {
    fail(ErrorKind::unsupported, "the size {} does not fit in the 32 bits that shaders count with", n);
  }
  return static_cast<uint32_t>(n);
}

inline int32_t to_i32(int64_t n) {
  if (n < std::numeric_limits<int32_t>::min() || n > std::numeric_limits<int32_t>::max()) {
    fail(ErrorKind::unsupported, "the number {} does not fit in the 32 bits that shaders count with", n);
  }
  return static_cast<int32_t>(n);
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

}  // namespace rlx
