#include "ir/literal.h"

#include <cmath>
#include <limits>

#include "base/fail.h"
#include "base/half.h"

namespace rlx {
namespace {

struct WholeRange {
  int64_t low, high;
};

template <class T>
constexpr WholeRange range_of() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

// Of integers and bool.
WholeRange whole_range(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return {0, 1};
    case DType::i8:
      return range_of<int8_t>();
    case DType::u8:
      return range_of<uint8_t>();
    case DType::i32:
      return range_of<int32_t>();
    case DType::u32:
      return range_of<uint32_t>();
    default:
      return range_of<int64_t>();
  }
}

bool is_whole(DType dtype) { return is_integer(dtype) || dtype == DType::bool_; }

bool becomes_infinite(DType dtype, double number) {
  if (!std::isfinite(number)) return false;
  if (dtype == DType::f16) return std::isinf(float_from_f16(f16_from_double(number)));
  if (dtype == DType::bf16) return std::isinf(float_from_bf16(bf16_from_double(number)));
  return std::isinf(static_cast<float>(number));
}

}  // namespace

void expect_fits(DType dtype, double number) {
  if (!is_whole(dtype)) {
    if (becomes_infinite(dtype, number)) fail("the number {} does not fit in {}", number, to_string(dtype));
    return;
  }
  if (!(number == std::trunc(number)))
    fail("the number {} is not whole, but its type is {}", number, to_string(dtype));
  // 2^63 is the smallest double above all int64.
  if (number < -0x1p63 || number >= 0x1p63)
    fail("the number {} does not fit in {}", number, to_string(dtype));
  expect_fits(dtype, static_cast<int64_t>(number));
}

void expect_fits(DType dtype, int64_t number) {
  if (!is_whole(dtype)) return expect_fits(dtype, static_cast<double>(number));
  const WholeRange range = whole_range(dtype);
  if (number < range.low || number > range.high) {
    fail("the number {} does not fit in {}, which goes from {} to {}", number, to_string(dtype), range.low,
         range.high);
  }
}

Tensor literal(DType dtype, double number) {
  expect_fits(dtype, number);
  return Tensor::full(dtype, {}, number);
}

Tensor literal(DType dtype, int64_t number) {
  expect_fits(dtype, number);
  // full() takes a double, which cannot hold every i64.
  Tensor t = Tensor::full(dtype, {}, static_cast<double>(number));
  if (dtype != DType::i64 || t.integer(0) == number) return t;
  return Tensor::from_ints(dtype, {}, std::span(&number, 1));
}

}  // namespace rlx
