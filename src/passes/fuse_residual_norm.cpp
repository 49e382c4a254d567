// norm(x + residual) in one kernel; the sum is an output too when others read it. A residual that is a cast
// of 16-bit floats is read before the cast.
#include <algorithm>

#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "ops/normalization/norm.h"
#include "passes/casts.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// The add that makes the value, if both its inputs have its shape.
const Node* residual_add(const Graph& graph, ValueId v) {
  const Node& n = graph.producer(v);
  const auto* op = op_cast<Elementwise>(*n.op);
  if (!op || op->fn->name != "add") return nullptr;
  const bool same = std::ranges::all_of(n.inputs, [&](ValueId in) { return graph.type(in) == n.outputs[0]; });
  return same ? &n : nullptr;
}

}  // namespace

Graph fuse_residual_norm(const Graph& graph) {
  const auto users = uses(graph);
  const StateVersions states(graph);
  Rewriter rewriter(graph);
  // An add with several readers is made by the norm, so the norm must be the first of them.
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const auto* norm = op_cast<Norm>(*n.op);
    const Node* add = norm && !norm->only_axis ? residual_add(graph, n.inputs[0]) : nullptr;
    const auto first_reader = [&] {
      return std::ranges::all_of(users.at(n.inputs[0]), [&](int32_t u) { return u < 0 || u >= id; });
    };
    // The addends are read later than before.
    const auto stays = [&](ValueId v) {
      return states.readable_at(v, id) && states.readable_at(widened_source(graph, v).value_or(v), id);
    };
    if (!add || !first_reader() || !std::ranges::all_of(add->inputs, stays)) {
      rewriter.copy(id);
      continue;
    }
    auto op = std::make_shared<ResidualNorm>(norm->kind);
    op->keep_sum = users.at(n.inputs[0]).size() > 1;
    op->eps = norm->eps;
    op->axis = norm->axis;
    op->to = norm->to;
    op->rounding = norm->rounding;
    // x has the type of the sum, the residual any.
    const bool swap = widened_source(graph, add->inputs[0]).has_value();
    const ValueId x = rewriter.mapped(add->inputs[swap ? 1 : 0]);
    const ValueId residual = without_widening(rewriter, add->inputs[swap ? 0 : 1]);
    const ValueId no_bias;
    std::vector<ValueId> inputs = {x, residual, no_bias};
    for (size_t i = 1; i < n.inputs.size(); ++i) inputs.push_back(rewriter.mapped(n.inputs[i]));
    const ValueId fused = rewriter.target().add(op, std::move(inputs), n.name);
    rewriter.map({id, 0}, fused);
    // Later readers of the sum take it from here.
    if (op->keep_sum) rewriter.map(n.inputs[0], {fused.node, 1});
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
