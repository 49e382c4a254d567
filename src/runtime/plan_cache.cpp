#include "runtime/plan_cache.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "runtime/run_values.h"

namespace rlx {

int64_t PlanCache::relowered() const {
  int64_t nodes = 0;
  for (const PlanForSizes& p : plans_) nodes += p.plan->relowered();
  return nodes;
}

void PlanCache::clear() { plans_.clear(); }

namespace {

// The graph is right for some sizes: those of this run are what is wrong.
[[noreturn]] void throw_for(const GivenSymbols& symbols, const Error& e) {
  if (e.kind() != ErrorKind::invalid_graph || symbols.empty()) throw e;
  SymbolValues values;
  symbols.copy_to(values);
  throw Error(ErrorKind::invalid_argument, formatted("with {}: {}", symbols_text(values), e.what()));
}

}  // namespace

std::shared_ptr<DevicePlan> PlanCache::find(const GivenSymbols& symbols) try {
  return find_fitting(symbols);
} catch (const Error& e) {
  throw_for(symbols, e);
}

std::shared_ptr<DevicePlan> PlanCache::find_fitting(const GivenSymbols& symbols) {
  const auto use = [&](std::list<PlanForSizes>::iterator it) {
    plans_.splice(plans_.begin(), plans_, it);
    return it->plan;
  };
  const auto same = std::ranges::find_if(
      plans_, [&](const PlanForSizes& p) { return p.serves && symbols.equal(p.values); });
  if (same != plans_.end()) return use(same);

  obstacle_.clear();
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!it->capacities || !symbols.equal_at_capacity(*it->capacities)) continue;
    it->serves = false;
    symbols.copy_to(it->values);
    const std::optional<std::string> obstacle = it->plan->retarget(it->values);
    it->serves = !obstacle;
    if (it->serves) return use(it);
    obstacle_ = *obstacle;
  }
  return nullptr;
}

Task<std::shared_ptr<DevicePlan>> PlanCache::get(const GivenSymbols& symbols) {
  try {
    if (std::shared_ptr<DevicePlan> plan = find_fitting(symbols)) co_return plan;
    SymbolValues values;
    symbols.copy_to(values);
    const SymbolValues capacities = symbols.at_capacity();
    PlanForSizes made = co_await make_device_plan(compiled_, weights_, values, capacities);
    if (made.reason.empty()) made.reason = obstacle_;
    plans_.push_front(std::move(made));
  } catch (const Error& e) {
    throw_for(symbols, e);
  }
  ++made_;
  while (std::ssize(plans_) > compiled_.options.max_plans) plans_.pop_back();
  co_return plans_.front().plan;
}

}  // namespace rlx
