#include "runtime/plan_cache.h"

#include <algorithm>

namespace rlx {

std::shared_ptr<DevicePlan> PlanCache::current(const GivenSymbols& symbols) const {
  if (plans_.empty() || !symbols.equal(plans_.front().values)) return nullptr;
  return plans_.front().plan;
}

int64_t PlanCache::relowered() const {
  int64_t nodes = 0;
  for (const CachedPlan& p : plans_) nodes += p.plan->relowered();
  return nodes;
}

std::shared_ptr<DevicePlan> PlanCache::get(const SymbolValues& values, const GivenSymbols& symbols) {
  const auto use = [&](std::list<CachedPlan>::iterator it) {
    plans_.splice(plans_.begin(), plans_, it);
    return it->plan;
  };
  const auto same = std::ranges::find(plans_, values, &CachedPlan::values);
  if (same != plans_.end()) return use(same);

  const SymbolValues capacities = symbols.at_capacity(values);
  std::string reason;
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->capacities != capacities) continue;
    it->values.clear();  // until it has been retargeted, it serves no values
    const std::optional<std::string> obstacle = it->plan->retarget(values);
    if (!obstacle) {
      it->values = values;
      return use(it);
    }
    reason = *obstacle;
  }
  MadePlan made = make_device_plan(compiled_, weights_, values, capacities);
  if (!made.obstacle.empty()) reason = made.obstacle;
  plans_.push_front(
      {made.grows ? std::optional(capacities) : std::nullopt, values, std::move(made.plan), reason});
  ++made_;
  while (std::ssize(plans_) > std::max<int64_t>(compiled_.options.max_plans, 1)) plans_.pop_back();
  return plans_.front().plan;
}

}  // namespace rlx
