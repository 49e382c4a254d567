// Whether any of several bools is true, which exporters count: sum(cast_i64(b)) > 0. The largest of them says
// the same, as f32, which can be reduced where it is computed (fuse_reduce): T5 in f16 asks for infinities
// twice in each layer.
#include <optional>

#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reductions/reduce.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// The count in `count > 0`, `0 < count` and `count != 0`.
std::optional<ValueId> compared_with_zero(const Graph& graph, const Node& n) {
  const auto* op = op_cast<Elementwise>(*n.op);
  if (!op || n.inputs.size() != 2) return std::nullopt;
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const bool asks = op->fn->name == "not_equal" || op->fn->name == (at == 0 ? "greater" : "less");
    const ValueId zero = n.inputs[1 - at];
    const bool keeps_shape = graph.type(n.inputs[at]).shape == n.outputs[0].shape;
    if (asks && keeps_shape && scalar_constant(graph, zero) == 0) return n.inputs[at];
  }
  return std::nullopt;
}

// The bools that are counted in 64 bits, which do not wrap.
std::optional<ValueId> counted(const Graph& graph, ValueId count) {
  const Node& sum = graph.producer(count);
  const auto* reduce = op_cast<Reduce>(*sum.op);
  if (!reduce || reduce->kind != ReduceKind::sum || sum.outputs[0].dtype != DType::i64) return std::nullopt;
  const Node& cast = graph.producer(sum.inputs[0]);
  const bool of_bools = op_cast<Cast>(*cast.op) && graph.type(cast.inputs[0]).dtype == DType::bool_;
  return of_bools ? std::optional(cast.inputs[0]) : std::nullopt;
}

}  // namespace

Graph reduce_flags(const Graph& graph) {
  const auto users = uses(graph);
  const StateVersions states(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const auto count = compared_with_zero(graph, n);
    const auto flags = count ? counted(graph, *count) : std::nullopt;
    if (!flags || users.at(*count).size() != 1 || !states.readable_at(*flags, id)) {
      rewriter.copy(id);
      continue;
    }
    Graph& target = rewriter.target();
    auto cast = std::make_shared<Cast>();
    cast->to = DType::f32;
    auto largest = std::make_shared<Reduce>(*op_cast<Reduce>(*graph.producer(*count).op));
    largest->kind = ReduceKind::max;
    const ValueId numbers = target.add(cast, {rewriter.mapped(*flags)}, n.name + ".flags");
    const ValueId any = target.add(largest, {numbers}, n.name + ".any");
    rewriter.replace(id, elementwise("greater"), {any, target.scalar(DType::f32, 0).id()});
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
