// Chains, trees and diamonds of element-wise ops become one generated kernel. A node joins when all its
// readers are in the region and it has the region's shape, so nothing is computed twice, or if it has a
// single element and costs little; constants become parameters of the kernel. A region above kRegionBudget
// becomes several kernels.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ir/load_phase.h"
#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

const ElementwiseOp* as_elementwise(const Op& op) { return dynamic_cast<const ElementwiseOp*>(&op); }

std::vector<DType> input_types(const Graph& graph, const Node& n) {
  std::vector<DType> types;
  for (ValueId v : n.inputs) types.push_back(graph.type(v).dtype);
  return types;
}

class Fuser {
 public:
  Fuser(const Graph& graph, int64_t max_inputs)
      : graph_(graph),
        rewriter_(graph),
        states_(graph),
        use_count_(static_cast<size_t>(graph.size()), 0),
        weights_(in_load_phase(graph)),
        max_inputs_(max_inputs) {
    for (const Node& n : graph.nodes()) {
      for (ValueId v : n.inputs) {
        if (!v.is_absent()) ++use_count_[static_cast<size_t>(v.node)];
      }
    }
    for (const Graph::Output& o : graph.outputs()) ++use_count_[static_cast<size_t>(o.value.node)];
  }

  Graph run() {
    const auto count = static_cast<size_t>(graph_.size());
    std::vector<std::vector<int32_t>> regions(count);  // by their last node, in the order of the graph
    std::vector<bool> absorbed(count, false);
    for (size_t id = count; id-- > 0;) {
      if (absorbed[id] || !as_elementwise(*graph_.node(static_cast<int32_t>(id)).op)) continue;
      regions[id] = grow(static_cast<int32_t>(id));
      for (int32_t n : regions[id]) absorbed[static_cast<size_t>(n)] = n != static_cast<int32_t>(id);
    }
    for (size_t id = 0; id < count; ++id) {
      if (absorbed[id]) continue;
      if (regions[id].empty()) {
        rewriter_.copy(static_cast<int32_t>(id));
      } else {
        emit(static_cast<int32_t>(id), regions[id]);
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  // A region that grows from its last node, and the values it reads with how often it reads them. Candidates
  // are visited from the last to the first, so that all readers of one have been decided on before it.
  struct Growth {
    int32_t root;
    int64_t cost = 0;
    bool may_overflow = false;  // which takes another binding
    std::vector<int32_t> nodes;
    std::map<ValueId, int32_t, std::greater<>> inputs;
  };

  // The nodes that can be computed with `root`: each is read by nodes of the region only.
  std::vector<int32_t> grow(int32_t root) const {
    Growth g{.root = root,
             .cost = expr(root).cost(),
             .may_overflow = expr(root).may_overflow(),
             .nodes = {root},
             .inputs = {}};
    add_inputs(g, root);
    for (auto it = g.inputs.begin(); it != g.inputs.end();) {
      const auto [v, used] = *it;
      if (!may_join(v, used, g)) {
        ++it;
        continue;
      }
      g.cost += expr(v.node).cost();
      g.may_overflow |= expr(v.node).may_overflow();
      g.nodes.push_back(v.node);
      add_inputs(g, v.node);  // all come before v
      it = g.inputs.erase(it);
    }
    std::ranges::reverse(g.nodes);
    return std::move(g.nodes);
  }

  Expr expr(int32_t id) const {
    const Node& n = graph_.node(id);
    return as_elementwise(*n.op)->expr(input_types(graph_, n));
  }

  bool is_number(ValueId v) const {
    return graph_.type(v).shape.rank() == 0 && scalar_constant(graph_, v).has_value();
  }

  // One element, of few operations. Its shape must not come from constants, which leave no input behind.
  bool is_cheap_number(int32_t id) const {
    const Node& n = graph_.node(id);
    const Shape& shape = n.outputs[0].shape;
    return shape.elements().is(1) && expr(id).cost() <= kBroadcastBudget &&
           std::ranges::any_of(n.inputs,
                               [&](ValueId v) { return !is_number(v) && graph_.type(v).shape == shape; });
  }

  void add_inputs(Growth& g, int32_t id) const {
    for (ValueId v : graph_.node(id).inputs) {
      if (!is_number(v)) ++g.inputs[v];
    }
  }

  bool may_join(ValueId v, int32_t used, const Growth& g) const {
    const Node& n = graph_.node(v.node);
    if (!as_elementwise(*n.op)) return false;
    if (!(n.outputs[0].shape == graph_.node(g.root).outputs[0].shape) && !is_cheap_number(v.node))
      return false;
    // What the load phase computes once must not be computed in each run.
    if (weights_[static_cast<size_t>(v.node)] != weights_[static_cast<size_t>(g.root)]) return false;
    if (use_count_[static_cast<size_t>(v.node)] != used || g.cost + expr(v.node).cost() > kRegionBudget)
      return false;
    // It would read where the root is, and by then a write may have changed what it reads.
    const auto readable = [&](ValueId in) { return states_.readable_at(in, g.root); };
    if (!std::ranges::all_of(n.inputs, readable)) return false;
    std::set<ValueId> fresh;
    for (ValueId in : n.inputs) {
      if (!g.inputs.contains(in) && !is_number(in)) fresh.insert(in);
    }
    const bool may_overflow = g.may_overflow || expr(v.node).may_overflow();
    return static_cast<int64_t>(g.inputs.size() - 1 + fresh.size()) + may_overflow <= max_inputs_;
  }

  void emit(int32_t root, const std::vector<int32_t>& nodes) {
    Region region(rewriter_.target());
    std::map<int32_t, Expr::Arg> result;
    for (int32_t id : nodes) {
      const Node& n = graph_.node(id);
      std::vector<Expr::Arg> args;
      for (ValueId v : n.inputs) {
        const auto inner = result.find(v.node);
        args.push_back(inner != result.end() ? inner->second : region.use(rewriter_.mapped(v)));
      }
      result[id] = region.splice(as_elementwise(*n.op)->expr(input_types(graph_, n)), args);
    }
    const bool grew = nodes.size() > 1 || region.inputs.size() < graph_.node(root).inputs.size();
    if (!grew || region.inputs.empty() || !(shape_of(region) == graph_.node(root).outputs[0].shape)) {
      for (int32_t id : nodes) rewriter_.copy(id);
      return;
    }
    auto op = std::make_shared<FusedElementwise>();
    op->expression = region.expr.untyped();
    rewriter_.replace(root, op, region.inputs);
  }

  // What the remaining inputs broadcast to. A constant that became a number may have given the result its
  // shape.
  Shape shape_of(const Region& region) {
    Shape shape;
    for (ValueId v : region.inputs)
      shape = broadcast(shape, rewriter_.target().type(v).shape, FusedElementwise::kName);
    return shape;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  StateVersions states_;
  std::vector<int32_t> use_count_;  // by node; a graph output is a use
  std::vector<bool> weights_;
  int64_t max_inputs_;
};

}  // namespace

Graph fuse_elementwise(const Graph& graph, int64_t max_inputs) { return Fuser(graph, max_inputs).run(); }

}  // namespace rlx
