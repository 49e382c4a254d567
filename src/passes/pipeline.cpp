// The order of the passes, with its reasons.
#include "ops/attention.h"
#include "ops/copy.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// Attention reads q, k and v where they are, also inside one packed projection; this gives each memory of its
// own.
Graph unpack_attention(const Graph& graph) {
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!op_cast<Attention>(*n.op)) {
      rewriter.copy(id);
      continue;
    }
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = rewriter.mapped(n.inputs[i]);
      const bool is_view = i < 3 && graph.producer(n.inputs[i]).op->has(Trait::view);
      inputs.push_back(
          is_view ? rewriter.target().add(std::make_shared<Contiguous>(), {v}, n.name + ".unpacked") : v);
    }
    rewriter.replace(id, n.op, std::move(inputs));
  }
  return rewriter.finish();
}

}  // namespace

Graph optimize(const Graph& graph, const PassOptions& options) {
  Graph g = remove_dead_code(graph);
  g = canonicalize(g);  // before folding and merging: equal things then look equal
  g = fold_constants(g, options.fold_max_elements);
  g = merge_common_subexpressions(g);
  g = fuse_attention(g);      // while scale, mask and softmax are still nodes of their own
  g = fuse_residual_norm(g);  // before the epilogues, which would take the residual add
  g = fuse_matmul_epilogue(g, options.max_region_inputs);
  g = join_matmuls(g);  // after the epilogues: biases are joined with their weights
  g = pack_weights(g);  // what was joined is in order already
  g = fuse_elementwise(g, options.max_region_inputs);
  if (!options.packed_attention) g = unpack_attention(g);
  return remove_dead_code(g);
}

}  // namespace rlx
