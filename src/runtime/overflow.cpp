#include "runtime/overflow.h"

#include <cstring>

#include "base/fail.h"

namespace rlx {
namespace {
constexpr uint64_t kWord = sizeof(int32_t);
}

gpu::Copy OverflowWords::clearing(size_t first, size_t count) const {
  return {.to = buffer, .to_offset = offset + kWord * first, .bytes = kWord * count};
}

void check_overflow(std::span<const std::byte> words, const std::vector<Program::NodeName>& names) {
  for (size_t i = 0; i < words.size() / kWord && i < names.size(); ++i) {
    int32_t word;
    std::memcpy(&word, words.data() + kWord * i, kWord);
    if (word == 0) continue;
    fail(ErrorKind::invalid_argument,
         "the node '{}' computes an i64 that does not fit in 32 bits, which is what i64 tensors have on "
         "the device (nodes that were fused into it count as it)",
         names[i].name);
  }
}

}  // namespace rlx
