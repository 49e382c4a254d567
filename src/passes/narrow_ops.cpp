// cast(op(cast(x))), where the inner cast makes f32 of 16-bit floats and the outer one goes back, becomes the
// op of the 16-bit floats, if that rounds nothing but its result: softmax in f32, as transformers have it.
#include <vector>

#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "passes/casts.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// The cast that alone reads the op, if it is the outer one.
std::optional<int32_t> outer_cast(const Graph& graph, const std::map<ValueId, std::vector<int32_t>>& users,
                                  int32_t id) {
  const Node& n = graph.node(id);
  if (!n.op->has(Trait::rounds_once) || n.outputs.size() != 1 || n.outputs[0].dtype != DType::f32)
    return std::nullopt;
  const auto readers = users.find({id, 0});
  if (readers == users.end() || readers->second.size() != 1 || readers->second[0] < 0) return std::nullopt;
  const Node& reader = graph.node(readers->second[0]);
  const auto x = widened_source(graph, n.inputs[0]);
  const bool back = x && op_cast<Cast>(*reader.op) && reader.outputs[0].dtype == graph.type(*x).dtype;
  return back ? std::optional(readers->second[0]) : std::nullopt;
}

}  // namespace

Graph narrow_ops(const Graph& graph) {
  const auto users = uses(graph);
  const StateVersions states(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    if (rewriter.is_mapped({id, 0})) continue;
    const Node& n = graph.node(id);
    const std::optional<int32_t> cast = outer_cast(graph, users, id);
    if (!cast || !states.readable_at(*widened_source(graph, n.inputs[0]), id)) {
      rewriter.copy(id);
      continue;
    }
    // The other inputs may have any float type.
    std::vector<ValueId> inputs = {without_widening(rewriter, n.inputs[0])};
    for (size_t i = 1; i < n.inputs.size(); ++i) inputs.push_back(rewriter.mapped(n.inputs[i]));
    rewriter.map({*cast, 0}, rewriter.target().add(n.op, std::move(inputs), n.name));
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
