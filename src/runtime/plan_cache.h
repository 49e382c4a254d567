// The plans of an executable by the values of its symbols, the most recently used ones.
#pragma once

#include <list>
#include <memory>

#include "runtime/pipeline.h"
#include "runtime/run_symbols.h"

namespace rlx {

class PlanCache {
 public:
  // Both must outlive the cache.
  PlanCache(const CompiledGraph& compiled, const Weights& weights) : compiled_(compiled), weights_(weights) {}

  // The plan that was used last if it is for these values, else nothing. Allocates nothing.
  std::shared_ptr<DevicePlan> current(const RunSymbols& symbols) const;
  // The plan for these values: one that exists, one that can be changed to serve them (within the
  // capacities), or a new one, for which another may have to be dropped.
  std::shared_ptr<DevicePlan> get(const SymbolValues& values, const RunSymbols& symbols);
  // How many were made so far.
  int64_t made() const { return made_; }

 private:
  struct CachedPlan {
    SymbolValues capacities;  // what its memory is planned for
    SymbolValues values;      // what its parameters are written for
    std::shared_ptr<DevicePlan> plan;
  };

  const CompiledGraph& compiled_;
  const Weights& weights_;
  std::list<CachedPlan> plans_;  // most recently used first
  int64_t made_ = 0;
};

}  // namespace rlx
