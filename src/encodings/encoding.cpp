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
  const auto apart = static_cast<size_t>(e.apart);
  const auto width = static_cast<size_t>(e.apart_bytes());
  const auto together = static_cast<size_t>(e.device_blocks());
  const auto blocks = static_cast<size_t>(count);
  if (width == 0) {
    copy(0, 0, blocks * bytes);
    return;
  }
  for (size_t i = 0; i < blocks; ++i) {
    const size_t block = i * bytes;
    const size_t first = i / together * (together * bytes);
    const size_t rest = first + 4 + i % together * (bytes - width);
    copy(block + apart, first + i % together * width, width);
    if (apart != 0) copy(block, rest, apart);  // a copy of nothing takes as long as one of a block
    copy(block + apart + width, rest + apart, bytes - width - apart);
  }
}

}  // namespace

void blocks_to_device(const Encoding& e, const std::byte* blocks, int64_t count, std::byte* device) {
  for_each_part(e, count, [&](size_t from, size_t to, size_t bytes) {
    std::memcpy(device + to, blocks + from, bytes);
  });
  const int64_t alone = count % e.device_blocks();
  if (alone == 0) return;
  const int64_t used = alone * e.apart_bytes();  // the rest of the word is where the partners' bytes would be
  std::memset(device + (count - alone) * e.block_bytes + used, 0, static_cast<size_t>(4 - used));
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
  check(e.apart_bytes() != 3, "the blocks of an encoding have no 4n + 3 bytes");
  check(e.apart >= 0 && e.apart + e.apart_bytes() <= e.block_bytes, "what lies apart belongs to the block");
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
