// States in a graph, and params that it writes (training), which are states as far as this file goes: which
// contents a value shows, and the order that keeps readers of old contents before the nodes that overwrite
// them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "rlx/graph.h"

namespace rlx {

// The params that a node of the graph overwrites.
std::set<int32_t> written_params(const Graph& graph);

// The contents of states that values read. Each write makes a new version of a state; a view shows the
// version that its source shows. The body of a loop or branch names its states instead of taking them as
// inputs: it reads, and may replace, the version that the last write before its node in the graph has made.
class StateVersions {
 public:
  explicit StateVersions(const Graph& graph);

  // The version that `v` shows (the state itself, or what a write returned); absent if it is not a state.
  ValueId version(ValueId v) const;
  // The node that overwrites what `v` shows; -1 if none does.
  int32_t writer(ValueId v) const;
  // Whether what `v` shows is still there when node `at` runs, in the order of the graph.
  bool readable_at(ValueId v, int32_t at) const { return writer(v) < 0 || writer(v) > at; }
  bool any_overwritten() const { return any_overwritten_; }
  // Pairs of nodes that must run in this order because of states in their bodies.
  const std::vector<std::pair<int32_t, int32_t>>& body_order() const { return body_order_; }

 private:
  // The newest version of a state, as nodes are walked in order.
  struct Newest {
    int32_t made_by = -1;  // -1: what the state holds before the run
    ValueId version = {};  // absent: no value of this graph shows it
    std::vector<int32_t> body_readers = {};
  };
  void overwrite(Newest& newest, int32_t writer, ValueId version);
  void use_in_body(Newest& newest, int32_t node, bool writes);

  std::map<ValueId, ValueId> version_;  // of the values that show one
  std::map<ValueId, int32_t> writer_;   // by version
  std::vector<std::pair<int32_t, int32_t>> body_order_;
  bool any_overwritten_ = false;
};

// The order in which nodes run: the graph's, but readers of a state's old contents come before the node that
// overwrites it, and what uses a run symbol comes after the node that determines it. An error when there is
// no such order.
std::vector<int32_t> schedule(const Graph& graph);
// The same, or nothing.
std::optional<std::vector<int32_t>> find_schedule(const Graph& graph);

}  // namespace rlx
