// From a compiled graph to a plan on a device: sizes, lowering, memory, pipelines.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "rlx/graph.h"
#include "runtime/compile_graph.h"
#include "runtime/device_plan.h"
#include "runtime/weights.h"

namespace rlx {

// A plan on the device with the sizes that it is for. Made by make_device_plan, kept by a PlanCache.
struct PlanForSizes {
  std::shared_ptr<DevicePlan> plan;
  SymbolValues values;  // what its parameters are written for
  // What the values can grow to (DevicePlan::retarget); nothing if it is for one set only.
  std::optional<SymbolValues> capacities = {};
  // Why it was made although there was one for the same capacities, or why it cannot grow to them; "" if
  // neither is so.
  std::string reason = {};
  bool serves = true;  // false: not even `values`, since it could not be retargeted
};

// The main graph, lowered for the values, in memory that is planned for the capacities if that can be: up to
// them the values may grow.
Task<PlanForSizes> make_device_plan(const CompiledGraph& compiled, const Weights& weights,
                                    SymbolValues values, SymbolValues capacities);

}  // namespace rlx
