// Two writes of states at the same place (the keys and the values of a layer) become one node, which writes
// both in one dispatch.
#include <algorithm>

#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/rearrange/write_state.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Joiner {
 public:
  // The graph is in running order.
  explicit Joiner(const Graph& graph) : rewriter_(graph), states_(graph) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    for (int32_t id = 0; id < g.size(); ++id) {
      if (rewriter_.is_mapped({id, 0})) continue;
      const int32_t second = next_write(id);
      if (second < 0 || !join(id, second)) rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  // The next write in the graph if `id` is a write too and both have the same attributes; else -1. A body
  // between them may read or write any state by its name.
  int32_t next_write(int32_t id) const {
    const Graph& g = rewriter_.source();
    const auto* write = op_cast<WriteState>(*g.node(id).op);
    if (!write || write->states != 1) return -1;
    for (int32_t next = id + 1; next < g.size(); ++next) {
      const Op& op = *g.node(next).op;
      if (op.overwrites(0)) return same(op, *write) ? next : -1;
      if (!states_in_bodies(op).empty()) return -1;
    }
    return -1;
  }

  // Both write where the first was. What lies between them comes before if it can: the update of the second
  // and readers of the contents that it overwrites. Since there is no third write between them, that moves no
  // read past one. False, and nothing done, if the second depends on the first.
  bool join(int32_t first, int32_t second) {
    const Graph& g = rewriter_.source();
    const auto offset = [&](int32_t id) { return static_cast<size_t>(id) - static_cast<size_t>(first); };
    std::vector<bool> after(offset(second) + 1, false);  // whether a node must come after the first
    const auto is_after = [&](ValueId v) { return v.node >= first && after[offset(v.node)]; };
    const auto shows_old = [&](ValueId v) { return states_.writer(v) == second; };
    for (int32_t id = first; id <= second; ++id) {
      const Node& n = g.node(id);
      after[offset(id)] = id == first || std::ranges::any_of(n.inputs, is_after);
      if (!after[offset(id)]) continue;
      // A reader of what the second overwrites must come before it. The first may itself be one.
      if (id == second || std::ranges::any_of(n.inputs, shows_old)) return false;
    }
    for (int32_t id = first + 1; id < second; ++id) {
      if (!after[offset(id)]) rewriter_.copy(id);
    }
    const Node& a = g.node(first);
    const Node& b = g.node(second);
    auto op = std::make_shared<WriteState>(*op_cast<WriteState>(*a.op));
    op->states = 2;
    const ValueId both =
        rewriter_.target().add(op,
                               {rewriter_.mapped(a.inputs[0]), rewriter_.mapped(b.inputs[0]),
                                rewriter_.mapped(a.inputs[1]), rewriter_.mapped(b.inputs[1])},
                               a.name);
    rewriter_.map({first, 0}, both);
    rewriter_.map({second, 0}, {both.node, 1});
    return true;
  }

  Rewriter rewriter_;
  const StateVersions states_;
};

}  // namespace

Graph join_writes(const Graph& graph) { return Joiner(graph).run(); }

}  // namespace rlx
