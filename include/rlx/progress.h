// What a device is busy with before it is quick: for those who wait.
#pragma once

#include <cstdint>
#include <functional>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class ProgressStage : uint8_t {
  pipelines,  // are made: their WGSL is translated and given to the driver
  // Dispatches of a submit in which some pipelines run for the first time. That is when many drivers compile
  // them, and where most of the time of a first run goes.
  first_run,
};

struct ProgressReport {
  ProgressStage stage;
  int64_t done = 0;
  int64_t total = 0;
};

// Called when a stage begins, after each step and at its end (done == total); never by two threads at a time.
// It must not throw, nor use the device.
using ProgressListener = std::function<void(const ProgressReport&)>;

}  // namespace rlx
RLX_EXPORT_END
