#include "cli/cost_report.h"

#include <cstdint>
#include <vector>

#include "base/format.h"
#include "cli/text.h"

namespace rlx::cli {

using measure::CostComparison;
using measure::NodeTime;

namespace {

std::string kernel_text(const NodeCost& n) {
  return n.variant.empty() || n.variant == n.kernel ? n.kernel : formatted("{} [{}]", n.kernel, n.variant);
}

std::string ms_of(double ns) { return formatted("{:.3f}", ns / 1e6); }
std::string ratio_text(double ratio) { return ratio > 0 ? formatted("{:.2f}", ratio) : "-"; }

// Before anything has run: all that is known is what is predicted.
std::string predicted_text(const CostComparison& r) {
  std::vector<std::vector<std::string>> rows = {{"node", "kernel", "predicted ms"}};
  for (const NodeTime& n : r.nodes) {
    if (n.predicted.ns >= 0.01 * r.predicted.device_ns())
      rows.push_back({n.predicted.node, kernel_text(n.predicted), ms_of(n.predicted.ns)});
  }
  return table(rows, {2}) + formatted("\n{} nodes, predicted to take {}; with the round trip {}\n",
                                      r.nodes.size(), ms_text(r.predicted.device_ns() / 1e6),
                                      ms_text(r.predicted.ns() / 1e6));
}

}  // namespace

Json to_json(const CostComparison& r) {
  Json nodes = Json::array();
  for (const NodeTime& n : r.nodes) {
    Json node = Json::object({{"node", n.predicted.node},
                              {"op", n.predicted.op},
                              {"kernel", n.predicted.kernel},
                              {"variant", n.predicted.variant},
                              {"dispatches", n.predicted.dispatches},
                              {"bytes", n.predicted.bytes},
                              {"flops", n.predicted.flops},
                              {"predicted_ns", n.predicted.ns}});
    if (n.measured_ns > 0) {
      node.set("measured_ns", n.measured_ns);
      node.set("ratio", n.ratio());
    }
    nodes.add(node);
  }
  Json out = Json::object(
      {{"nodes", nodes}, {"predicted_ns", r.predicted.device_ns()}, {"predicted_run_ns", r.predicted.ns()}});
  if (r.run_ns > 0) {
    out.set("measured_ns", r.measured_ns);
    out.set("measured_run_ns", r.run_ns);
    out.set("large_nodes", r.large());
    out.set("large_nodes_within_two", r.large_within_two());
  }
  return out;
}

std::string to_text(const CostComparison& r) {
  if (r.run_ns <= 0) return predicted_text(r);
  std::vector<std::vector<std::string>> rows = {{"node", "kernel", "predicted ms", "measured ms", "ratio"}};
  const auto add = [&](const std::string& node, const std::string& kernel, double predicted,
                       double measured) {
    rows.push_back({node, kernel, ms_of(predicted), ms_of(measured),
                    ratio_text(measured > 0 ? predicted / measured : 0)});
  };
  double others = 0;
  double others_measured = 0;
  int64_t count = 0;
  for (const NodeTime& n : r.nodes) {
    if (r.is_large(n)) {
      add(n.predicted.node, kernel_text(n.predicted), n.predicted.ns, n.measured_ns);
      continue;
    }
    others += n.predicted.ns;
    others_measured += n.measured_ns;
    ++count;
  }
  if (count > 0) add(formatted("{} others", count), "", others, others_measured);
  add("all", "", r.predicted.device_ns(), r.measured_ns);
  add("a run", "with the round trip", r.predicted.ns(), r.run_ns);
  return table(rows, {2, 3, 4}) +
         formatted("\n{} of the {} nodes with at least 1 % of the time are predicted within a factor of 2\n",
                   r.large_within_two(), r.large());
}

}  // namespace rlx::cli
