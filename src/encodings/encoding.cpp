#include "encodings/encoding.h"

#include <algorithm>

#include "base/fail.h"

namespace rlx {

void EncodingTable::add(const Encoding& e) {
  check(is_encoded(e.dtype), "the types of encodings come after all others in DType");
  check(e.group_elements > 0 && e.group_elements % 4 == 0 && e.block_elements % e.group_elements == 0,
        "a block of an encoding consists of whole groups, and a group of whole fours");
  check(e.block_bytes % 2 == 0, "the blocks of an encoding begin at even bytes");
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
