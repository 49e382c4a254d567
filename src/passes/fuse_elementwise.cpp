// Chains, trees and diamonds of element-wise ops become one generated kernel. A node joins when all its
// readers are in the region and it has the region's shape, so nothing is computed twice; scalars become
// parameters of the kernel.
#include <algorithm>
#include <set>

#include "ir/load_phase.h"
#include "ops/elementwise.h"
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
        uses_(uses(graph)),
        weights_(in_load_phase(graph)),
        max_inputs_(max_inputs) {}

  Graph run() {
    std::vector<std::set<int32_t>> regions(static_cast<size_t>(graph_.size()));
    std::set<int32_t> absorbed;
    for (int32_t id = graph_.size() - 1; id >= 0; --id) {
      if (!as_elementwise(*graph_.node(id).op) || absorbed.contains(id)) continue;
      regions[static_cast<size_t>(id)] = grow(id);
      absorbed.insert(regions[static_cast<size_t>(id)].begin(), regions[static_cast<size_t>(id)].end());
      absorbed.erase(id);
    }
    for (int32_t id = 0; id < graph_.size(); ++id) {
      if (absorbed.contains(id)) continue;
      if (const auto& region = regions[static_cast<size_t>(id)]; region.empty()) {
        rewriter_.copy(id);
      } else {
        emit(id, region);
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  // The nodes that can be computed with `root`: each is read by nodes of the region only.
  std::set<int32_t> grow(int32_t root) const {
    std::set<int32_t> region = {root};
    for (bool grew = true; grew;) {
      grew = false;
      for (auto it = region.rbegin(); it != region.rend() && !grew; ++it) {
        for (ValueId v : graph_.node(*it).inputs) {
          if (region.contains(v.node) || !may_join(v, root, region)) continue;
          region.insert(v.node);
          grew = true;
          break;
        }
      }
    }
    return region;
  }

  bool may_join(ValueId v, int32_t root, const std::set<int32_t>& region) const {
    const Node& n = graph_.node(v.node);
    if (!as_elementwise(*n.op) || !(n.outputs[0].shape == graph_.node(root).outputs[0].shape)) return false;
    // What the load phase computes once must not be computed in each run.
    if (weights_[static_cast<size_t>(v.node)] != weights_[static_cast<size_t>(root)]) return false;
    if (!std::ranges::all_of(uses_.at(v), [&](int32_t user) { return region.contains(user); })) return false;
    std::set<int32_t> larger = region;
    larger.insert(v.node);
    return static_cast<int64_t>(inputs_of(larger).size()) <= max_inputs_;
  }

  // The values that a region reads, numbers aside.
  std::set<ValueId> inputs_of(const std::set<int32_t>& region) const {
    std::set<ValueId> values;
    for (int32_t id : region) {
      for (ValueId v : graph_.node(id).inputs) {
        const bool number = scalar_constant(graph_, v) && graph_.type(v).shape.rank() == 0;
        if (!region.contains(v.node) && !number) values.insert(v);
      }
    }
    return values;
  }

  void emit(int32_t root, const std::set<int32_t>& nodes) {
    Region region(rewriter_.target());
    std::map<int32_t, Expr::Arg> result;
    for (int32_t id : nodes) {
      const Node& n = graph_.node(id);
      std::vector<Expr::Arg> args;
      for (ValueId v : n.inputs) {
        args.push_back(nodes.contains(v.node) ? result.at(v.node) : region.use(rewriter_.mapped(v)));
      }
      result[id] = region.splice(as_elementwise(*n.op)->expr(input_types(graph_, n)), args);
    }
    const bool grew = nodes.size() > 1 || region.inputs.size() < graph_.node(root).inputs.size();
    if (!grew || region.inputs.empty() || !(shape_of(region) == graph_.node(root).outputs[0].shape)) {
      for (int32_t id : nodes) rewriter_.copy(id);
      return;
    }
    auto op = std::make_shared<FusedElementwise>();
    op->text = region.expr.text();
    rewriter_.replace(root, op, region.inputs);
  }

  // What the inputs that are left broadcast to: a number may have been all that gave the result its shape.
  Shape shape_of(const Region& region) {
    Shape shape;
    for (ValueId v : region.inputs)
      shape = broadcast(shape, rewriter_.target().type(v).shape, FusedElementwise::kName);
    return shape;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<ValueId, std::vector<int32_t>> uses_;
  std::vector<bool> weights_;
  int64_t max_inputs_;
};

}  // namespace

Graph fuse_elementwise(const Graph& graph, int64_t max_inputs) { return Fuser(graph, max_inputs).run(); }

}  // namespace rlx
