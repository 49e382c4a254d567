// The outputs of a run as the host gets them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/program.h"
#include "rlx/graph.h"
#include "rlx/tensor.h"

namespace rlx {

class RunOutputs {
 public:
  // The outputs that are wanted (all if no names are given), and the counts of counted ones.
  RunOutputs(const std::vector<Graph::Output>& outputs, const std::vector<std::string>& wanted);
  // Those to be read back: the wanted ones, then counts that were not requested.
  const std::vector<std::string>& names() const { return names_; }

  // From what has been read back.
  NamedTensors read(std::span<const std::byte> bytes) const;

  struct Slot {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    uint64_t offset, device_bytes, host_bytes;
  };
  std::vector<Slot> slots;
  std::vector<Program::NodeName> node_names;  // if there are words for overflow, which follow the slots
  uint64_t overflow_offset = 0;
  bool zeros = false;  // DebugOptions::dispatch_only

 private:
  struct Counted {
    std::string name, count;
    int64_t axis;
    bool count_wanted;  // false: it was read for this output only
  };
  std::vector<std::string> names_;
  std::vector<Counted> counted_;
};

}  // namespace rlx
