// Chains and trees of element-wise ops become one generated kernel. A producer joins its only consumer when both have the
// same shape, so nothing is computed twice; scalars become parameters of the kernel.
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
  Fuser(const Graph& graph, int64_t max_inputs) : rewriter_(graph), uses_(uses(graph)), weights_(from_weights(graph)), max_inputs_(max_inputs) {}

  Graph run() {
    for (int32_t id = 0; id < rewriter_.source().size(); ++id) {
      if (as_elementwise(*rewriter_.source().node(id).op)) {
        fuse(id);
      } else {
        rewriter_.copy(id);
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  void fuse(int32_t id) {
    const Graph& source = rewriter_.source();
    const Node& n = source.node(id);
    Region region(rewriter_.target());
    std::vector<Expr::Arg> args;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = rewriter_.mapped(n.inputs[i]);
      const Node& producer = rewriter_.target().producer(v);
      const auto* op = as_elementwise(*producer.op);
      const auto left = static_cast<int64_t>(n.inputs.size() - i - 1);
      const auto after = static_cast<int64_t>(region.inputs.size() + producer.inputs.size()) + left;
      // What the load phase computes once must not be computed in each run.
      const bool same_phase = weights_[static_cast<size_t>(n.inputs[i].node)] == weights_[static_cast<size_t>(id)];
      const bool joins = op && same_phase && uses_.at(n.inputs[i]).size() == 1 && producer.outputs[0].shape == n.outputs[0].shape &&
                         after <= max_inputs_;
      if (!joins) {
        args.push_back(region.use(v));
        continue;
      }
      std::vector<Expr::Arg> inner;
      for (ValueId p : producer.inputs) inner.push_back(region.use(p));
      args.push_back(region.splice(op->expr(input_types(rewriter_.target(), producer)), inner));
    }
    region.splice(as_elementwise(*n.op)->expr(input_types(source, n)), args);
    const bool grew = region.expr.steps.size() > 1 || region.inputs.size() < n.inputs.size();
    // All constant: nothing to read, and fold_constants found it too large to compute.
    if (!grew || region.inputs.empty()) {
      rewriter_.copy(id);
      return;
    }
    auto op = std::make_shared<FusedElementwise>();
    op->text = region.expr.text();
    // An expression may have lost the operand that gave it its shape.
    Shape shape;
    for (size_t i = 0; i < region.inputs.size(); ++i) {
      const Shape& s = rewriter_.target().type(region.inputs[i]).shape;
      shape = i == 0 ? s : broadcast(shape, s, op->name());
    }
    if (shape == n.outputs[0].shape) {
      rewriter_.replace(id, op, region.inputs);
    } else {
      rewriter_.copy(id);
    }
  }

  Rewriter rewriter_;
  std::map<ValueId, std::vector<int32_t>> uses_;
  std::vector<bool> weights_;
  int64_t max_inputs_;
};

}  // namespace

Graph fuse_elementwise(const Graph& graph, int64_t max_inputs) { return Fuser(graph, max_inputs).run(); }

}  // namespace rlx
