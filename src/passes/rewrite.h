// What passes share: copying a graph node by node while some nodes are replaced.
#pragma once

#include <map>
#include <vector>

#include "ir/op.h"
#include "rlx/graph.h"

namespace rlx {

class Rewriter {
 public:
  explicit Rewriter(const Graph& source);

  const Graph& source() const { return source_; }
  Graph& target() { return target_; }

  // The value in the new graph that stands for one of the old; the old value must have been handled. What is
  // absent stays so.
  ValueId mapped(ValueId old) const { return old.is_absent() ? old : map_.at(old); }
  bool is_mapped(ValueId old) const { return map_.contains(old); }
  void map(ValueId old, ValueId fresh) { map_[old] = fresh; }
  // Copies a node with its inputs mapped, under its own name.
  ValueId copy(int32_t node);
  // Adds a node under the name of an old one and maps the old one's outputs to it.
  ValueId replace(int32_t node, OpPtr op, std::vector<ValueId> new_inputs);
  // The graph with its outputs; the rewriter is spent.
  Graph finish();

 private:
  const Graph& source_;
  Graph target_;
  std::map<ValueId, ValueId> map_;
};

// Who uses each value; a graph output counts as a use by node -1.
std::map<ValueId, std::vector<int32_t>> uses(const Graph& graph);

}  // namespace rlx
