#include "runtime/make_device_plan.h"

#include <set>
#include <utility>
#include <vector>

#include "gpu/device.h"
#include "plan/plan.h"
#include "rlx/error.h"
#include "runtime/commands.h"
#include "runtime/resizable_program.h"
#include "runtime/run_values.h"

namespace rlx {
namespace {

Task<std::shared_ptr<DevicePlan>> plan_of(const CompiledGraph& compiled, const Weights& weights,
                                          ResizableProgram lowered) {
  gpu::Device& device = *weights.device();
  Plan plan =
      make_plan(lowered.program, weights.placements(lowered.program, lowered.sized.graph),
                weights.fixed_buffers(), device.caps(), {.keep_all = compiled.options.keep_intermediates});
  std::vector<gpu::Pipeline> pipelines =
      co_await make_pipelines(device, plan.dispatches, lowered.program.names);
  co_return std::make_shared<DevicePlan>(weights, compiled.target, std::move(lowered), std::move(plan),
                                         std::move(pipelines));
}

}  // namespace

Task<PlanForSizes> make_device_plan(const CompiledGraph& compiled, const Weights& weights,
                                    SymbolValues values, SymbolValues capacities) {
  std::set<std::string> growing;
  for (const auto& [name, largest] : capacities) {
    if (compiled.graph->capacities().contains(name)) growing.insert(name);
  }
  std::optional<std::string> obstacle;
  if (!growing.empty()) {
    SymbolValues typical = values;
    for (const std::string& name : growing) typical[name] = typical_length(capacities.at(name));
    // Typical lengths, or the capacities, may be wrong together with the other sizes of this run (a start
    // that is length - tokens). If the run itself is right, it has a plan all the same; but a capacity that
    // is wrong by itself is a mistake.
    for (const SymbolValues& sizes : {typical, values}) {
      try {
        ResizableProgram lowered = lower_resizable(compiled.split.main, compiled.target, sizes, growing);
        obstacle = reserve(lowered, compiled.target, capacities);
        if (obstacle) break;
        auto plan = co_await plan_of(compiled, weights, std::move(lowered));
        obstacle = plan->retarget(values);
        if (obstacle) break;
        co_return PlanForSizes{.plan = std::move(plan), .values = values, .capacities = capacities};
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::invalid_graph || values.size() == 1) throw;
        obstacle = e.what();
      }
    }
  }
  ResizableProgram lowered = lower_resizable(compiled.split.main, compiled.target, values, {});
  if (!lowered.run_symbols.empty()) reserve(lowered, compiled.target, values);
  auto plan = co_await plan_of(compiled, weights, std::move(lowered));
  co_return PlanForSizes{.plan = std::move(plan), .values = values, .reason = obstacle.value_or("")};
}

}  // namespace rlx
