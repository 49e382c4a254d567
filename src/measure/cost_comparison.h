// What was predicted of a model's nodes beside what they took.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rlx/cost.h"
#include "rlx/report.h"

namespace rlx::measure {

struct NodeTime {
  NodeCost predicted;
  double measured_ns = 0;  // 0: it did not run, as those of a branch that is not taken

  double ratio() const { return measured_ns > 0 ? predicted.ns / measured_ns : 0; }
  bool within_two() const { return ratio() >= 0.5 && ratio() <= 2; }
};

struct CostComparison {
  GraphCost predicted;
  std::vector<NodeTime> nodes;  // the longest first, by what was measured
  double measured_ns = 0;       // of all of them
  double run_ns = 0;            // of a whole run, by the host's clock; 0: nothing has run

  // Whether the node has at least one per cent of the time.
  bool is_large(const NodeTime& node) const;
  int64_t large() const;
  int64_t large_within_two() const;
};

// `runs` are of one plan. What a dispatch took is the least of them, and of a dispatch in a loop what an
// iteration takes.
CostComparison compare_cost(GraphCost predicted, std::span<const std::vector<DispatchReport>> runs,
                            double run_ns);

}  // namespace rlx::measure
