// transpose(attention(transpose(q), ...)), as exporters write it, becomes an attention that reads and writes
// [batch, sequence, heads, head] where it lies: the result needs no copy before it is reshaped.
#include "ops/attention/attention.h"
#include "ops/rearrange/transpose.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

const std::vector<int64_t> kSwapHeads = {0, 2, 1, 3};

bool swaps_heads(const Node& n) {
  const auto* transpose = op_cast<Transpose>(*n.op);
  return transpose && n.outputs[0].shape.rank() == 4 && transpose->order(4) == kSwapHeads;
}

// What is swapped, if v is that; else v swapped.
ValueId swapped(Rewriter& rewriter, ValueId v, const std::string& name) {
  const Node& producer = rewriter.target().producer(v);
  if (swaps_heads(producer)) return producer.inputs[0];
  auto transpose = std::make_shared<Transpose>();
  transpose->perm = kSwapHeads;
  return rewriter.target().add(transpose, {v}, name);
}

}  // namespace

Graph attention_layout(const Graph& graph) {
  const auto users = uses(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const Node* const source = swaps_heads(n) ? &graph.producer(n.inputs[0]) : nullptr;
    const auto* attention = source ? op_cast<Attention>(*source->op) : nullptr;
    // Scales of keys and values would have to be swapped too, and a second output might be read.
    const bool plain = source && source->inputs.size() <= Attention::kKScale && source->outputs.size() == 1;
    if (!attention || !plain || attention->layout != AttentionLayout::bhsd ||
        users.at(n.inputs[0]).size() != 1) {
      rewriter.copy(id);
      continue;
    }
    auto op = std::make_shared<Attention>(*attention);
    op->layout = AttentionLayout::bshd;
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < source->inputs.size(); ++i) {
      const ValueId v = rewriter.mapped(source->inputs[i]);
      inputs.push_back(i < Attention::kMask ? swapped(rewriter, v, source->name + ".swapped") : v);
    }
    rewriter.map({id, 0}, rewriter.target().add(op, std::move(inputs), source->name));
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
