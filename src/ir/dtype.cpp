#include "ir/dtype.h"

#include "base/checked.h"
#include "base/fail.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

struct Facts {
  std::string_view name;
  size_t host_bytes;
  size_t device_bytes;
  double epsilon;
};

const Facts& facts(DType type) {
  static constexpr Facts table[] = {
      {"f32", 4, 4, 0x1p-23}, {"f16", 2, 2, 0x1p-10}, {"bf16", 2, 2, 0x1p-7}, {"i32", 4, 4, 0},
      {"u32", 4, 4, 0},       {"i64", 8, 4, 0},       {"bool", 1, 1, 0},      {"i8", 1, 1, 0},
      {"u8", 1, 1, 0},        {"c64", 8, 8, 0x1p-23},
  };
  check(!is_encoded(type), "the bytes of an encoded type are asked for blocks, not for elements");
  return table[static_cast<size_t>(type)];
}

int64_t whole_blocks(const Encoding& e, int64_t elements) {
  check(elements % e.block_elements == 0, "an encoded tensor consists of whole blocks");
  return elements / e.block_elements;
}

}  // namespace

std::string_view to_string(DType type) {
  return is_encoded(type) ? encoding_of(type).name : facts(type).name;
}
int64_t block_elements(DType type) { return is_encoded(type) ? encoding_of(type).block_elements : 1; }
size_t host_bytes(DType type) { return facts(type).host_bytes; }
size_t device_bytes(DType type) { return facts(type).device_bytes; }
size_t host_bytes_of(DType type, int64_t elements) {
  if (!is_encoded(type)) return static_cast<size_t>(elements) * host_bytes(type);
  const Encoding& e = encoding_of(type);
  return static_cast<size_t>(whole_blocks(e, elements) * e.block_bytes);
}

int64_t device_bytes_of(DType type, int64_t elements) {
  if (!is_encoded(type)) return elements * static_cast<int64_t>(device_bytes(type));
  const Encoding& e = encoding_of(type);
  return e.device_bytes(whole_blocks(e, elements));
}

int64_t host_elements_in(DType type, int64_t bytes) {
  if (is_encoded(type)) return device_elements_in(type, bytes);
  return bytes / static_cast<int64_t>(host_bytes(type));
}

int64_t device_elements_in(DType type, int64_t bytes) {
  if (!is_encoded(type)) return bytes / static_cast<int64_t>(device_bytes(type));
  const Encoding& e = encoding_of(type);
  return bytes / e.block_bytes * e.block_elements;
}

void expect_whole_blocks(DType type, const Shape& shape) {
  if (!is_encoded(type)) return;
  const int64_t block = block_elements(type);
  const std::string text = excerpt(std::string(to_string(type)) + shape.text());
  if (shape.rank() == 0) fail("{} has no axis; the type stores blocks of {} along the last one", text, block);
  const Dim& last = shape[shape.rank() - 1];
  if (!last.is_static()) {
    fail("the last axis of {} is symbolic; it must be a number, since the type stores blocks of {} along it",
         text, block);
  }
  if (last.value() % block != 0)
    fail("the last axis of {} must be a multiple of {}, the elements of a block", text, block);
}

double epsilon(DType type) { return facts(type).epsilon; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (DType type : kAllDTypes) {
    if (to_string(type) == text) return type;
  }
  for (const Encoding& e : encoding_table().all()) {
    if (e.name == text) return e.dtype;
  }
  return std::nullopt;
}

}  // namespace rlx
