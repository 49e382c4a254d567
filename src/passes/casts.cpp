#include "passes/casts.h"

#include "ir/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rearrange/reshape.h"

namespace rlx {

bool is_16_bit_float(DType t) { return t == DType::f16 || t == DType::bf16; }

std::optional<ValueId> before_widening(const Graph& graph, ValueId v) {
  const Node& n = graph.producer(v);
  if (!op_cast<Cast>(*n.op) || n.outputs[0].dtype != DType::f32) return std::nullopt;
  return is_16_bit_float(graph.type(n.inputs[0]).dtype) ? std::optional(n.inputs[0]) : std::nullopt;
}

std::optional<ValueId> widened_source(const Graph& graph, ValueId v) {
  while (op_cast<Reshape>(*graph.producer(v).op)) v = graph.producer(v).inputs[0];
  return before_widening(graph, v);
}

ValueId without_widening(Rewriter& rewriter, ValueId v) {
  const Graph& graph = rewriter.source();
  if (!widened_source(graph, v)) return rewriter.mapped(v);
  if (const auto narrow = before_widening(graph, v)) return rewriter.mapped(*narrow);
  const Node& reshape = graph.producer(v);
  return rewriter.target().add(reshape.op, {without_widening(rewriter, reshape.inputs[0])},
                               reshape.name + ".narrow");
}

}  // namespace rlx
