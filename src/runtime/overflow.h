// How a run learns that an i64 needs more bits than the device has for it: kernels set a word of their node
// (Lowering::overflow), and whoever reads results reads these words too.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpu/device.h"
#include "plan/program.h"

namespace rlx {

// Where the words of a program lie; without a buffer if it has none.
struct OverflowWords {
  const gpu::Buffer* buffer = nullptr;
  uint64_t offset = 0, bytes = 0;

  // Sets `count` of them to zero, from that of name `first` on.
  gpu::Copy clearing(size_t first, size_t count) const;
  gpu::Copy clearing() const { return {.to = buffer, .to_offset = offset, .bytes = bytes}; }
};

// Throws if a word is set.
void check_overflow(std::span<const std::byte> words, const std::vector<Program::NodeName>& names);

}  // namespace rlx
