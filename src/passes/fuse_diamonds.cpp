// A value that several element-wise ops read, and what they make of it in the end, become one op: the parts
// of a gelu, x * sigmoid(x), a prelu with its slopes. A product then has one reader, which can become its
// epilogue.
#include <algorithm>
#include <map>
#include <set>

#include "ir/load_phase.h"
#include "ops/elementwise/elementwise.h"
#include "ops/products/product_op.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph), uses_(uses(graph)), weights_(in_load_phase(graph)), rewriter_(graph) {}

  Graph run() {
    std::map<int32_t, std::pair<ValueId, std::vector<int32_t>>> diamonds;  // by their last node
    std::vector<bool> taken(static_cast<size_t>(graph_.size()), false);
    for (int32_t id = 0; id < graph_.size(); ++id) {
      const Op& op = *graph_.node(id).op;
      if (taken[static_cast<size_t>(id)] || (!as_product(op) && !op.has(Trait::elementwise))) continue;
      std::vector<int32_t> nodes = from({id, 0});
      for (const int32_t n : nodes) taken[static_cast<size_t>(n)] = true;
      if (!nodes.empty()) diamonds.emplace(nodes.back(), std::pair(ValueId{id, 0}, nodes));
    }
    for (int32_t id = 0; id < graph_.size(); ++id) {
      const auto it = diamonds.find(id);
      if (it == diamonds.end()) {
        rewriter_.copy(id);
      } else {
        emit(it->second.first, it->second.second);
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  // Nodes that compute one result of nothing but the tip, numbers and weights that broadcast to it, in the
  // order of the graph; none where something else reads the tip or what is computed on the way.
  std::vector<int32_t> from(ValueId tip) const {
    const auto readers = uses_.find(tip);
    if (readers == uses_.end() || readers->second.size() < 2) return {};
    std::vector<int32_t> nodes;
    std::map<ValueId, size_t> unread = {{tip, readers->second.size()}};
    int64_t cost = 0;
    std::set<int32_t> open(readers->second.begin(), readers->second.end());  // readers of what is unread
    while (!open.empty()) {
      const int32_t id = *open.begin();
      open.erase(open.begin());
      if (id < 0) return {};  // an output
      const Node& n = graph_.node(id);
      if (!joins(n, tip, unread)) return {};
      cost += expr_of(n).cost();
      if (cost > kRegionBudget) return {};
      nodes.push_back(id);
      for (const ValueId v : n.inputs) {
        if (const auto it = unread.find(v); it != unread.end() && --it->second == 0) unread.erase(it);
      }
      if (unread.empty()) return nodes;
      const auto own = uses_.find({id, 0});
      if (own == uses_.end()) return {};
      unread[{id, 0}] = own->second.size();
      open.insert(own->second.begin(), own->second.end());
    }
    return {};
  }

  bool joins(const Node& n, ValueId tip, const std::map<ValueId, size_t>& values) const {
    const Shape& shape = graph_.type(tip).shape;
    const auto known = [&](ValueId v) {
      if (values.contains(v) || (scalar_constant(graph_, v) && graph_.type(v).shape.rank() == 0)) return true;
      return weights_[static_cast<size_t>(v.node)] && !weights_[static_cast<size_t>(tip.node)] &&
             !(graph_.type(v).shape == shape);
    };
    return n.op->has(Trait::elementwise) && n.outputs[0].shape == shape &&
           std::ranges::all_of(n.inputs, known);
  }

  void emit(ValueId tip, const std::vector<int32_t>& nodes) {
    Region region(rewriter_.target());
    std::map<ValueId, Expr::Arg> made = {{tip, region.use(rewriter_.mapped(tip))}};
    for (const int32_t id : nodes) {
      const Node& n = graph_.node(id);
      std::vector<Expr::Arg> args;
      for (const ValueId v : n.inputs) {
        const auto it = made.find(v);
        args.push_back(it != made.end() ? it->second : region.use(rewriter_.mapped(v)));
      }
      made[{id, 0}] = region.splice(expr_of(n), args);
    }
    auto op = std::make_shared<FusedElementwise>();
    op->expression = region.expr.untyped();
    rewriter_.replace(nodes.back(), op, region.inputs);
  }

  Expr expr_of(const Node& n) const {
    return dynamic_cast<const ElementwiseOp&>(*n.op).expr(input_dtypes(input_types(graph_, n)));
  }

  const Graph& graph_;
  std::map<ValueId, std::vector<int32_t>> uses_;
  std::vector<bool> weights_;
  Rewriter rewriter_;
};

}  // namespace

Graph fuse_diamonds(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace rlx
