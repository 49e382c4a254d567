// The inside of a Run.
#pragma once

#include <string>
#include <vector>

#include "gpu/device.h"
#include "rlx/executable.h"
#include "runtime/runner.h"

namespace rlx {

struct Run::Impl {
  // The outputs that are wanted (all if no names are given), and the counts of counted ones.
  Impl(const std::vector<Graph::Output>& outputs, const std::vector<std::string>& wanted);
  // Those to be read back: the wanted ones, then counts that were not requested.
  const std::vector<std::string>& names() const { return names_; }

  NamedTensors get();

  struct Slot {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    uint64_t offset, device_bytes, host_bytes;
  };
  std::shared_ptr<Runner> runner;  // null if everything has been submitted
  gpu::Readback readback;          // empty when nothing is to be read
  std::vector<Slot> slots;
  std::shared_ptr<DevicePlan> plan;  // that has words for overflow, which follow the slots from here on
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
