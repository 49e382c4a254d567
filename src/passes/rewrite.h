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
  const Graph& target() const { return target_; }

  // The value in the new graph that replaces one of the old; the old value must have been handled. What is
  // absent stays absent.
  ValueId mapped(ValueId old) const {
    if (old.is_absent()) return old;
    check(is_mapped(old), "a value is handled before its users");
    return map_[place(old)];
  }
  bool is_mapped(ValueId old) const { return map_[place(old)].node >= 0; }
  void map(ValueId old, ValueId fresh) { map_[place(old)] = fresh; }
  // Copies a node with its inputs mapped, under its own name.
  ValueId copy(int32_t node);
  // Adds a node under the name of an old one and maps the old one's outputs to it.
  ValueId replace(int32_t node, OpPtr op, std::vector<ValueId> new_inputs);
  // The graph with its outputs; the rewriter is used up.
  Graph finish();

 private:
  size_t place(ValueId v) const {
    return first_[static_cast<size_t>(v.node)] + static_cast<size_t>(v.output);
  }

  const Graph& source_;
  Graph target_;
  std::vector<size_t> first_;  // the place of each node's output 0 in map_
  std::vector<ValueId> map_;   // node -1: not handled yet
};

// The users of each value; a graph output counts as a use by node -1.
std::map<ValueId, std::vector<int32_t>> uses(const Graph& graph);

}  // namespace rlx
