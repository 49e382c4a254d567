#include "ir/dtype.h"

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
  return table[static_cast<size_t>(type)];
}

}  // namespace

std::string_view to_string(DType type) { return facts(type).name; }
size_t host_bytes(DType type) { return facts(type).host_bytes; }
size_t device_bytes(DType type) { return facts(type).device_bytes; }
double epsilon(DType type) { return facts(type).epsilon; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (DType type : kAllDTypes) {
    if (to_string(type) == text) return type;
  }
  return std::nullopt;
}

}  // namespace rlx
