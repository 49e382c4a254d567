#include "encodings/encoding.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"

namespace rlx {
namespace {

// Calls copy(byte of the blocks, byte on the device, number of bytes) for everything that stays together.
template <class Copy>
void for_each_part(const Encoding& e, int64_t count, const Copy& copy) {
  const auto bytes = static_cast<size_t>(e.block_bytes);
  const auto half = static_cast<size_t>(e.paired_half);
  const auto blocks = static_cast<size_t>(count);
  if (!e.paired()) {
    copy(0, 0, blocks * bytes);
    return;
  }
  for (size_t i = 0; i < blocks; ++i) {
    const size_t block = i * bytes;
    const size_t pair = i / 2 * (2 * bytes);
    const size_t rest = pair + 4 + i % 2 * (bytes - 2);
    copy(block + half, pair + i % 2 * 2, 2);
    if (half != 0) copy(block, rest, half);  // a copy of nothing takes as long as one of a block
    copy(block + half + 2, rest + half, bytes - 2 - half);
  }
}

}  // namespace

void blocks_to_device(const Encoding& e, const std::byte* blocks, int64_t count, std::byte* device) {
  for_each_part(e, count, [&](size_t from, size_t to, size_t bytes) {
    std::memcpy(device + to, blocks + from, bytes);
  });
  if (e.paired() && count % 2 != 0)
    std::memset(device + (count - 1) * e.block_bytes + 2, 0, 2);  // where the partner's f16 would be
}

void blocks_from_device(const Encoding& e, const std::byte* device, int64_t count, std::byte* blocks) {
  for_each_part(e, count, [&](size_t to, size_t from, size_t bytes) {
    std::memcpy(blocks + to, device + from, bytes);
  });
}

void EncodingTable::add(const Encoding& e) {
  check(is_encoded(e.dtype), "the types of encodings come after all others in DType");
  check(e.group_elements > 0 && e.group_elements % 4 == 0 && e.block_elements % e.group_elements == 0,
        "a block of an encoding consists of whole groups, and a group of whole fours");
  check(e.block_bytes % 2 == 0, "the blocks of an encoding have an even number of bytes");
  check(e.paired_half >= 0 && e.paired_half + 2 <= e.block_bytes, "the f16 of a paired block lies in it");
  encodings_.insert(std::ranges::upper_bound(encodings_, e.dtype, {}, &Encoding::dtype), e);
}

const EncodingTable& encoding_table() {
  static const EncodingTable table = [] {
    EncodingTable all;
    encodings::register_all(all);
    return all;
  }();
  return table;
}

const Encoding& encoding_of(DType type) {
  const std::vector<Encoding>& all = encoding_table().all();
  const auto found = std::ranges::lower_bound(all, type, {}, &Encoding::dtype);
  check(found != all.end() && found->dtype == type, "each encoded type has a file in src/encodings");
  return *found;
}

}  // namespace rlx
