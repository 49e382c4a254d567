#include "runtime/plan_cache.h"

#include <algorithm>

namespace rlx {

int64_t PlanCache::relowered() const {
  int64_t nodes = 0;
  for (const CachedPlan& p : plans_) nodes += p.plan->relowered();
  return nodes;
}

std::shared_ptr<DevicePlan> PlanCache::get(const GivenSymbols& symbols) {
  const auto use = [&](std::list<CachedPlan>::iterator it) {
    plans_.splice(plans_.begin(), plans_, it);
    return it->plan;
  };
  const auto same =
      std::ranges::find_if(plans_, [&](const CachedPlan& p) { return p.serves && symbols.equal(p.values); });
  if (same != plans_.end()) return use(same);

  std::string reason;
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!it->capacities || !symbols.equal_at_capacity(*it->capacities)) continue;
    it->serves = false;
    symbols.copy_to(it->values);
    const std::optional<std::string> obstacle = it->plan->retarget(it->values);
    it->serves = !obstacle;
    if (it->serves) return use(it);
    reason = *obstacle;
  }
  SymbolValues values;
  symbols.copy_to(values);
  const SymbolValues capacities = symbols.at_capacity();
  MadePlan made = make_device_plan(compiled_, weights_, values, capacities);
  if (!made.obstacle.empty()) reason = made.obstacle;
  plans_.push_front(
      {made.grows ? std::optional(capacities) : std::nullopt, values, true, std::move(made.plan), reason});
  ++made_;
  while (std::ssize(plans_) > std::max<int64_t>(compiled_.options.max_plans, 1)) plans_.pop_back();
  return plans_.front().plan;
}

}  // namespace rlx
