// Addresses for blocks of memory that live for a limited time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/binder.h"

namespace rlx {

// When a storage holds something: from the dispatch that first writes it to the last that touches it.
struct Lifetime {
  static constexpr int32_t kNever = -1;
  int32_t first = kNever;
  int32_t last = kNever;
  bool used() const { return first != kNever; }
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

// Places each block at the lowest offset where nothing is alive at the same time. Pass large blocks first:
// small ones then fill the gaps.
class Arena {
 public:
  Arena(int32_t first_buffer, int64_t max_bytes) : first_buffer_(first_buffer), max_bytes_(max_bytes) {}

  Placement place(int64_t bytes, const Lifetime& life);
  std::vector<int64_t> sizes() const;  // of the buffers
  // How many blocks and groups of blocks were looked at: tests count them.
  int64_t steps() const { return steps_; }

 private:
  struct Placed {
    int64_t offset, end;
    Lifetime life;
  };
  // Neighbours by offset and time, with what is true of all: most queries step over most groups.
  struct Group {
    std::vector<Placed> blocks;
    int64_t begin = 0, end = 0;              // the lowest offset, the highest end
    int64_t gap = 0;                         // the largest between blocks
    Lifetime any;                            // from the first beginning to the last end
    int32_t last_first = 0, first_last = 0;  // all are alive in this range, if it is not empty
    void summarize();
  };
  struct Buffer {
    int64_t size = 0;
    std::vector<Group> groups;
  };

  int64_t lowest_offset(const Buffer& buffer, int64_t bytes, const Lifetime& life);
  static void insert(Buffer& buffer, const Placed& block);

  int32_t first_buffer_;
  int64_t max_bytes_;
  std::vector<Buffer> buffers_;
  int64_t steps_ = 0;
};

}  // namespace rlx
