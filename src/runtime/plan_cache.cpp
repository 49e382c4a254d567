#include "runtime/plan_cache.h"

#include <algorithm>

namespace rlx {

std::shared_ptr<DevicePlan> PlanCache::current(const RunSymbols& symbols) const {
  if (plans_.empty() || !symbols.equal(plans_.front().values)) return nullptr;
  return plans_.front().plan;
}

std::shared_ptr<DevicePlan> PlanCache::get(const SymbolValues& values, const RunSymbols& symbols) {
  const auto use = [&](std::list<CachedPlan>::iterator it) {
    plans_.splice(plans_.begin(), plans_, it);
    return it->plan;
  };
  const auto same = std::ranges::find(plans_, values, &CachedPlan::values);
  if (same != plans_.end()) return use(same);

  const SymbolValues capacities = symbols.at_capacity(values);
  StaticProgram now = lower_static(compiled_, values);
  // A length that changes the kernels themselves (a matmul with one row) has its own plan for the same
  // capacities.
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->capacities != capacities || !it->plan->retarget(now.graph, now.program)) continue;
    it->values = values;
    return use(it);
  }
  plans_.push_front(
      {capacities, values, make_device_plan(compiled_, weights_, std::move(now), values, capacities)});
  ++made_;
  while (std::ssize(plans_) > std::max<int64_t>(compiled_.options.max_plans, 1)) plans_.pop_back();
  return plans_.front().plan;
}

}  // namespace rlx
