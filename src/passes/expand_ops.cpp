// Puts what an op expands into (Op::expand) in its place, until nothing expands: calls, and ops that are
// written in terms of others. Also in the bodies of branches and loops.
#include <algorithm>

#include "base/format.h"
#include "ir/subgraphs.h"
#include "ops/control_flow/call.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// What one node expands into, as a graph of its own, whose nodes may expand in turn.
struct Body {
  Graph graph;
  std::vector<Value> inputs;  // stand for the node's
  std::vector<Value> outputs;
};

// An error unless the outputs are those of the node.
void check_outputs(const Node& n, const Body& body) {
  if (body.outputs.size() != n.outputs.size())
    fail(ErrorKind::internal, "the expansion has {} outputs instead of {}", body.outputs.size(),
         n.outputs.size());
  for (size_t o = 0; o < n.outputs.size(); ++o) {
    const Value& v = body.outputs[o];
    if (!v || &v.graph() != &body.graph)
      fail(ErrorKind::internal, "output {} of the expansion belongs to another graph", o);
    if (!(value_type(v.type()) == n.outputs[o]))
      fail(ErrorKind::internal, "output {} of the expansion is {} instead of {}", o, v.type().text(),
           n.outputs[o].text());
  }
}

// False if the op does not expand. `input_types` has the type of each input; those of absent ones are
// ignored.
bool make_body(const Node& n, const std::vector<TensorType>& input_types, Body& body) {
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    body.inputs.push_back(n.inputs[i].is_absent()
                              ? Value()
                              : body.graph.input(formatted("input {}", i), value_dtype(input_types[i].dtype),
                                                 input_types[i].shape));
  }
  std::optional<std::vector<Value>> outputs = n.op->expand({body.graph, body.inputs});
  if (!outputs) return false;
  body.outputs = *std::move(outputs);
  check_outputs(n, body);
  return true;
}

class Expander {
 public:
  Expander(const Graph& graph, bool (*chosen)(const Op&)) : rewriter_(graph), chosen_(chosen) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    for (int32_t id = 0; id < g.size(); ++id) {
      std::vector<ValueId> inputs;
      for (ValueId v : g.node(id).inputs) inputs.push_back(rewriter_.mapped(v));
      const std::vector<ValueId> outputs = place(g.node(id), std::move(inputs), g.node(id).name);
      for (size_t o = 0; o < outputs.size(); ++o) rewriter_.map({id, static_cast<int32_t>(o)}, outputs[o]);
    }
    return rewriter_.finish();
  }

 private:
  // The node's outputs in the new graph, for inputs there: of the node itself or of what it expands into.
  std::vector<ValueId> place(const Node& n, std::vector<ValueId> inputs, const std::string& name) {
    if (chosen_(*n.op)) {
      try {
        if (auto outputs = expanded(n, inputs, name)) return *std::move(outputs);
      } catch (const Error& e) {
        throw e.within(formatted("while expanding node '{}' ({})", excerpt(name), n.op->name()));
      }
    }
    const auto inside = [this](const Graph& body) { return Expander(body, chosen_).run(); };
    const ValueId fresh = rewriter_.target().add(map_subgraphs(n.op, inside), std::move(inputs), name);
    std::vector<ValueId> outputs;
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) outputs.push_back({fresh.node, o});
    return outputs;
  }

  std::optional<std::vector<ValueId>> expanded(const Node& n, const std::vector<ValueId>& inputs,
                                               const std::string& name) {
    // Sub-graphs nest only so deep, but an op that expands into itself never ends.
    const bool ends = !n.op->subgraphs().empty();
    if (!ends && std::ranges::contains(open_, n.op->name()))
      fail(ErrorKind::internal, "the op {} expands into itself ({}, {})", n.op->name(), joined(open_),
           n.op->name());
    std::vector<TensorType> types;
    for (ValueId v : inputs) types.push_back(v.is_absent() ? TensorType{} : rewriter_.target().type(v));
    Body body;
    if (!make_body(n, types, body)) return std::nullopt;
    if (!ends) open_.push_back(n.op->name());
    std::vector<ValueId> outputs = splice(body, inputs, name);
    if (!ends) open_.pop_back();
    return outputs;
  }

  std::vector<ValueId> splice(const Body& body, const std::vector<ValueId>& inputs, const std::string& name) {
    merge_capacities(rewriter_.target(), body.graph);
    std::map<ValueId, ValueId> map;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (body.inputs[i]) map[body.inputs[i].id()] = inputs[i];
    }
    for (int32_t id = 0; id < body.graph.size(); ++id) {
      if (map.contains({id, 0})) continue;
      const Node& n = body.graph.node(id);
      std::vector<ValueId> mapped;
      for (ValueId v : n.inputs) mapped.push_back(v.is_absent() ? v : map.at(v));
      const bool is_result = !body.outputs.empty() && id == body.outputs[0].id().node;
      const std::vector<ValueId> outputs = place(n, std::move(mapped), inner_name(name, n, id, is_result));
      for (size_t o = 0; o < outputs.size(); ++o) map[{id, static_cast<int32_t>(o)}] = outputs[o];
    }
    std::vector<ValueId> outputs;
    for (const Value& v : body.outputs) outputs.push_back(map.at(v.id()));
    return outputs;
  }

  // A node that the expansion named is `name.given`. Of the others, the one that makes the first output takes
  // the name of the expanded node, and the rest are named after their ops.
  static std::string inner_name(const std::string& name, const Node& n, int32_t id, bool is_result) {
    const bool given = n.name != formatted("{}.{}", n.op->name(), id);
    if (given) return name + "." + n.name;
    return is_result ? name : formatted("{}.{}", name, n.op->name());
  }

  Rewriter rewriter_;
  bool (*chosen_)(const Op&);
  std::vector<std::string_view> open_;  // the ops that are being expanded, outermost first
};

}  // namespace

Graph expand_ops(const Graph& graph) {
  return Expander(graph, [](const Op& op) { return op.expands(); }).run();
}

Graph inline_calls(const Graph& graph) {
  return Expander(graph, [](const Op& op) { return op_cast<Call>(op) != nullptr; }).run();
}

}  // namespace rlx
