// A product whose columns are split writes the parts itself: q, k and v of one weight.
#include "ops/products/product_op.h"
#include "ops/rearrange/split.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {

Graph fuse_split(const Graph& graph) {
  Rewriter rewriter(graph);
  const std::map<ValueId, std::vector<int32_t>> used = uses(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const auto* split = op_cast<Split>(*n.op);
    const Node* const producer = split ? &rewriter.target().producer(rewriter.mapped(n.inputs[0])) : nullptr;
    const ProductOp* const product = producer ? as_product(*producer->op) : nullptr;
    const int64_t rank = split ? graph.type(n.inputs[0]).shape.rank() : 0;
    const bool last = split && normal_axis(split->axis, rank) == rank - 1;
    const auto fused =
        product && last && used.at(n.inputs[0]).size() == 1 ? product->with_splits(split->sizes) : nullptr;
    if (fused) {
      rewriter.replace(id, fused, producer->inputs);
    } else {
      rewriter.copy(id);
    }
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
