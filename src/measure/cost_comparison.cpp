#include "measure/cost_comparison.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace rlx::measure {
namespace {

// By node.
std::map<std::string_view, double> measured_times(std::span<const std::vector<DispatchReport>> runs) {
  struct Step {
    std::string_view node;
    double least = 0;
  };
  std::map<int64_t, Step> steps;
  for (const std::vector<DispatchReport>& run : runs) {
    std::map<int64_t, std::pair<double, int64_t>> sums;  // and how many
    for (const DispatchReport& d : run) {
      auto& [ns, count] = sums[d.step];
      ns += static_cast<double>(d.end_ns - d.begin_ns);
      ++count;
      steps[d.step].node = d.node;
    }
    for (const auto& [step, sum] : sums) {
      const double ns = sum.first / static_cast<double>(sum.second);
      double& least = steps[step].least;
      least = least > 0 ? std::min(least, ns) : ns;
    }
  }
  std::map<std::string_view, double> out;
  for (const auto& [number, step] : steps) out[step.node] += step.least;
  return out;
}

}  // namespace

bool CostComparison::is_large(const NodeTime& n) const {
  return n.measured_ns > 0 && n.measured_ns >= 0.01 * measured_ns;
}
int64_t CostComparison::large() const {
  return std::ranges::count_if(nodes, [&](const NodeTime& n) { return is_large(n); });
}
int64_t CostComparison::large_within_two() const {
  return std::ranges::count_if(nodes, [&](const NodeTime& n) { return is_large(n) && n.within_two(); });
}

CostComparison compare_cost(GraphCost predicted, std::span<const std::vector<DispatchReport>> runs,
                            double run_ns) {
  CostComparison out{.predicted = std::move(predicted), .nodes = {}, .run_ns = run_ns};
  const auto measured = measured_times(runs);
  for (const NodeCost& n : out.predicted.nodes) {
    const auto found = measured.find(n.node);
    out.nodes.push_back({n, found == measured.end() ? 0 : found->second});
    out.measured_ns += out.nodes.back().measured_ns;
  }
  std::ranges::stable_sort(out.nodes, std::greater<>(),
                           [](const NodeTime& n) { return std::pair(n.measured_ns, n.predicted.ns); });
  return out;
}

}  // namespace rlx::measure
