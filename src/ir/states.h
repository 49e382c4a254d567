// States in a graph: which contents a value shows, and the order that keeps readers of old contents before
// the nodes that overwrite them.
#pragma once

#include <optional>
#include <vector>

#include "rlx/graph.h"

namespace rlx {

// The contents of states that values read. Each write makes a new version of a state; a view shows the
// version that its source shows.
class StateVersions {
 public:
  explicit StateVersions(const Graph& graph);

  // The node that made the version that `v` lies in (the state itself, or a write); -1 if it is not a state.
  int32_t version(ValueId v) const;
  // The node that overwrites what `v` shows; -1 if none does.
  int32_t writer(ValueId v) const;
  // Whether what `v` shows is still there when node `at` runs, in the order of the graph.
  bool readable_at(ValueId v, int32_t at) const { return writer(v) < 0 || writer(v) > at; }
  bool any_overwritten() const { return any_overwritten_; }

 private:
  std::vector<int32_t> version_;  // by node
  std::vector<int32_t> writer_;   // by the node of the version
  bool any_overwritten_ = false;
};

// The order in which nodes run: the graph's, but readers of a state's old contents come before the node that
// overwrites it. An error when there is no such order.
std::vector<int32_t> schedule(const Graph& graph);
// The same, or nothing.
std::optional<std::vector<int32_t>> find_schedule(const Graph& graph);

}  // namespace rlx
