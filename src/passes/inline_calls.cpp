// Puts the nodes of sub-graphs that are always run in the place of their calls.
#include "ops/call.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// Adds the body's nodes to `target`; `inputs` are values there. Returns the values of the body's outputs.
std::vector<ValueId> inline_body(const Call& call, const std::vector<ValueId>& inputs,
                                 const std::string& name, Graph& target) {
  const Graph& body = *call.body;
  std::map<ValueId, ValueId> map;
  const std::vector<int32_t> parameters = call.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) map[{parameters[i], 0}] = inputs[i];
  for (int32_t id = 0; id < body.size(); ++id) {
    if (map.contains({id, 0})) continue;
    const Node& n = body.node(id);
    std::vector<ValueId> mapped;
    for (ValueId v : n.inputs) mapped.push_back(v.is_absent() ? v : map.at(v));
    const std::string inner_name = name + "." + n.name;
    if (const auto* inner = op_cast<Call>(*n.op)) {
      const std::vector<ValueId> outputs = inline_body(*inner, mapped, inner_name, target);
      for (size_t o = 0; o < outputs.size(); ++o) map[{id, static_cast<int32_t>(o)}] = outputs[o];
      continue;
    }
    const ValueId fresh = target.add(n.op, std::move(mapped), inner_name);
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) map[{id, o}] = {fresh.node, o};
  }
  std::vector<ValueId> outputs;
  for (const Graph::Output& o : body.outputs()) outputs.push_back(map.at(o.value));
  return outputs;
}

}  // namespace

Graph inline_calls(const Graph& graph) {
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const auto* call = op_cast<Call>(*n.op);
    if (!call) {
      rewriter.copy(id);
      continue;
    }
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter.mapped(v));
    const std::vector<ValueId> outputs = inline_body(*call, inputs, n.name, rewriter.target());
    for (size_t o = 0; o < outputs.size(); ++o) rewriter.map({id, static_cast<int32_t>(o)}, outputs[o]);
  }
  return rewriter.finish();
}

}  // namespace rlx
