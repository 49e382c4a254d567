#include "plan/arena.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"

namespace rlx {
namespace {
constexpr size_t kGroupBlocks = 128;  // a full group becomes two
}  // namespace

Placement Arena::place(int64_t wanted, const Lifetime& life) {
  const int64_t bytes = round_up(wanted, kBindingAlignment);
  if (bytes > max_bytes_) {
    fail(ErrorKind::out_of_memory,
         "a tensor of {} bytes is larger than the largest buffer of the device ({} bytes)", bytes,
         max_bytes_);
  }
  for (size_t b = 0;; ++b) {
    if (b == buffers_.size()) buffers_.emplace_back();
    Buffer& buffer = buffers_[b];
    const int64_t offset = lowest_offset(buffer, bytes, life);
    if (offset + bytes > max_bytes_) continue;
    insert(buffer, {offset, offset + bytes, life});
    buffer.size = std::max(buffer.size, offset + bytes);
    return {first_buffer_ + static_cast<int32_t>(b), offset, wanted};
  }
}

std::vector<int64_t> Arena::sizes() const {
  std::vector<int64_t> all;
  for (const Buffer& b : buffers_) all.push_back(b.size);
  return all;
}

int64_t Arena::lowest_offset(const Buffer& buffer, int64_t bytes, const Lifetime& life) {
  int64_t offset = 0;
  for (const Group& g : buffer.groups) {
    ++steps_;
    if (offset + bytes <= g.begin) return offset;
    if (!g.any.overlaps(life) || g.end <= offset) continue;
    const bool all_alive = g.last_first <= life.last && life.first <= g.first_last;
    if (all_alive && g.gap < bytes) {
      offset = std::max(offset, g.end);
      continue;
    }
    for (const Placed& p : g.blocks) {
      ++steps_;
      if (offset + bytes <= p.offset) return offset;
      if (p.life.overlaps(life)) offset = std::max(offset, p.end);
    }
  }
  return offset;
}

void Arena::insert(Buffer& buffer, const Placed& block) {
  const auto key = [](const Placed& p) { return std::tuple(p.offset, p.life.first); };
  auto& groups = buffer.groups;
  if (groups.empty()) groups.emplace_back();
  auto group = std::ranges::upper_bound(groups, key(block), {}, [&](const Group& g) {
    return g.blocks.empty() ? key(block) : key(g.blocks.front());
  });
  if (group != groups.begin()) --group;
  group->blocks.insert(std::ranges::upper_bound(group->blocks, key(block), {}, key), block);
  if (group->blocks.size() == kGroupBlocks) {
    Group second;
    const auto middle = group->blocks.begin() + kGroupBlocks / 2;
    second.blocks.assign(middle, group->blocks.end());
    group->blocks.erase(middle, group->blocks.end());
    second.summarize();
    group = groups.insert(group + 1, std::move(second)) - 1;
  }
  group->summarize();
}

void Arena::Group::summarize() {
  begin = end = blocks.front().offset;
  gap = 0;
  any = blocks.front().life;
  last_first = any.first;
  first_last = any.last;
  for (const Placed& p : blocks) {
    gap = std::max(gap, p.offset - end);
    end = std::max(end, p.end);
    any = {std::min(any.first, p.life.first), std::max(any.last, p.life.last)};
    last_first = std::max(last_first, p.life.first);
    first_last = std::min(first_last, p.life.last);
  }
}

}  // namespace rlx
