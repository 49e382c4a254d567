// An element-wise region that only a reduction reads is computed as the reduction reads it: mean(x * x), the
// sum of a product, the largest magnitude. Every element of it is read once, so nothing is computed twice.
#include <algorithm>

#include "ir/load_phase.h"
#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "ops/products/product_op.h"
#include "ops/reductions/mapped_reduce.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, int64_t max_inputs)
      : graph_(graph),
        uses_(uses(graph)),
        states_(graph),
        weights_(in_load_phase(graph)),
        max_inputs_(max_inputs) {}

  // The region before a reduction, if it can be part of it; else null.
  const ElementwiseOp* region_of(int32_t id) const {
    const ValueId x = graph_.node(id).inputs[0];
    const Node& n = graph_.producer(x);
    const auto* op = dynamic_cast<const ElementwiseOp*>(n.op.get());
    if (!op || !is_float(n.outputs[0].dtype) || uses_.at(x).size() != 1) return nullptr;
    // What the load phase computes once must not be computed in each run.
    if (weights_[static_cast<size_t>(x.node)] != weights_[static_cast<size_t>(id)]) return nullptr;
    const auto readable = [&](ValueId v) { return states_.readable_at(v, id); };
    const Expr expr = op->expr(input_dtypes(input_types(graph_, n)));
    const bool fits = std::ssize(n.inputs) <= max_inputs_ && expr.cost() <= kRegionBudget;
    return fits && !expr.may_overflow() && std::ranges::all_of(n.inputs, readable) ? op : nullptr;
  }

 private:
  const Graph& graph_;
  const std::map<ValueId, std::vector<int32_t>> uses_;
  const StateVersions states_;
  const std::vector<bool> weights_;
  int64_t max_inputs_;
};

}  // namespace

Graph fuse_reduce(const Graph& graph, int64_t max_inputs) {
  const Fuser fuser(graph, max_inputs);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const auto* reduce = op_cast<Reduce>(*n.op);
    const ElementwiseOp* const region = reduce ? fuser.region_of(id) : nullptr;
    if (!region) {
      rewriter.copy(id);
      continue;
    }
    const Node& before = graph.producer(n.inputs[0]);
    Region of_inputs(rewriter.target());
    std::vector<Expr::Arg> args;
    for (const ValueId v : before.inputs) args.push_back(of_inputs.use(rewriter.mapped(v)));
    of_inputs.splice(region->expr(input_dtypes(input_types(graph, before))), args);
    Shape shape;
    for (const ValueId v : of_inputs.inputs)
      shape = broadcast(shape, rewriter.target().type(v).shape, MappedReduce::kName);
    // A constant that became a number may have given the region its shape.
    if (of_inputs.inputs.empty() || !(shape == before.outputs[0].shape)) {
      rewriter.copy(id);
      continue;
    }
    auto op = std::make_shared<MappedReduce>();
    op->kind = reduce->kind;
    op->expression = of_inputs.expr.untyped();
    op->axes = reduce->axes;
    op->keepdims = reduce->keepdims;
    rewriter.replace(id, op, of_inputs.inputs);
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
