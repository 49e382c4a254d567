// The plans of an executable by the values of its symbols, the most recently used ones.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "runtime/given_symbols.h"
#include "runtime/make_device_plan.h"

namespace rlx {

class PlanCache {
 public:
  // Both must outlive the cache.
  PlanCache(const CompiledGraph& compiled, const Weights& weights) : compiled_(compiled), weights_(weights) {}

  // The plan for the values of the symbols: one that exists, or one that can be changed to serve them (within
  // the capacities); null if there is none. Sizes for which the graph is wrong are an
  // ErrorKind::invalid_argument.
  std::shared_ptr<DevicePlan> find(const GivenSymbols& symbols);
  // The same, or a new one, for which another may have to be dropped.
  Task<std::shared_ptr<DevicePlan>> get(const GivenSymbols& symbols);
  void clear();
  // How many were made so far.
  int64_t made() const { return made_; }
  // How many nodes were lowered again, for the plans that are kept.
  int64_t relowered() const;
  // Why the plan that was used last was made although there was one for the same capacities; "" if there was
  // none.
  const std::string& reason() const { return plans_.front().reason; }

 private:
  std::shared_ptr<DevicePlan> find_fitting(const GivenSymbols& symbols);

  const CompiledGraph& compiled_;
  const Weights& weights_;
  std::list<PlanForSizes> plans_;  // most recently used first
  int64_t made_ = 0;
  std::string obstacle_;  // why find() could not change a plan to serve the symbols, if there was one
};

}  // namespace rlx
