// Attention reads q, k and v where they are, even inside one packed projection; this gives each its own
// memory.
#include "ops/attention/attention.h"
#include "ops/rearrange/contiguous.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {

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

}  // namespace rlx
