// The parts of rlx/diagnostics.h that an executable uses on itself, with its lock held.
#pragma once

#include <functional>
#include <memory>

#include "gpu/device.h"
#include "rlx/compile.h"
#include "rlx/diagnostics.h"
#include "runtime/trace.h"

namespace rlx {

// The value of a node of the graph after a run.
using ReadValue = std::function<Tensor(std::string_view node, int32_t output)>;

std::optional<BadNode> find_first_nan(const Graph& graph, const ReadValue& read);
std::vector<NodeSummary> summarize_nodes(const Graph& graph, const ReadValue& read, int64_t limit);

// Does what DebugOptions request; an executable without requests has no such object.
class Diagnostics {
 public:
  Diagnostics(const DebugOptions& options, const std::string& graph_name);
  static bool wanted(const DebugOptions& options);

  void planned(const PlanReport& plan, const std::string& text) const;
  void ran(const Graph& graph, const ReadValue& read) const;
  bool traces() const { return trace_ != nullptr; }
  double now_us() const { return trace_->now_us(); }
  void timed(double start_us, std::span<const DispatchReport> dispatches) const;

 private:
  void log(const std::string& text) const;

  DebugOptions options_;
  std::string graph_name_;
  std::shared_ptr<TraceFile> trace_;
  int64_t track_ = 0;
};

// The options with those of the environment added.
DebugOptions with_environment(DebugOptions options);

}  // namespace rlx
