// A weight that a matmul reads transposed is written out once, in the load phase, in the order in which
// kernels stream it.
#include "ops/copy.h"
#include "ops/matmul.h"
#include "ops/transpose.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {

Graph pack_weights(const Graph& graph) {
  Rewriter rewriter(graph);
  std::map<ValueId, ValueId> packed;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const bool matmul = op_cast<MatMul>(*n.op) != nullptr;
    const Node* weight = matmul ? &graph.producer(n.inputs[1]) : nullptr;
    if (!weight || !op_cast<Transpose>(*weight->op) ||
        !graph.producer(weight->inputs[0]).op->is(LeafKind::param)) {
      rewriter.copy(id);
      continue;
    }
    const auto [it, fresh] = packed.emplace(n.inputs[1], ValueId{});
    if (fresh) {
      it->second = rewriter.target().add(std::make_shared<Contiguous>(), {rewriter.mapped(n.inputs[1])},
                                         weight->name + ".packed");
    }
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter.mapped(v));
    inputs[1] = it->second;
    rewriter.replace(id, n.op, std::move(inputs));
  }
  return rewriter.finish();
}

}  // namespace rlx
