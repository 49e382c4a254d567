#include <map>

#include "ir/infer.h"
#include "ir/op.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

void verify_node(const Graph& graph, int32_t id) {
  const Node& n = graph.node(id);
  for (ValueId v : n.inputs) {
    if (v.node >= id) fail("node '{}' uses a value that is made after it", n.name);
  }
  const std::vector<TensorType> inferred = infer_outputs(graph, *n.op, n.inputs);
  if (inferred != n.outputs) {
    fail("node '{}' ({}) is recorded as {}, but its inputs give {}", n.name, n.op->name(),
         n.outputs[0].text(), inferred[0].text());
  }
  for (const GraphPtr& sub : n.op->subgraphs()) {
    verify(*sub);
    for (const Graph::Output& o : sub->outputs()) {
      if (!o.count.empty())
        fail("node '{}': the output '{}' of its sub-graph is counted; only the whole graph's can be", n.name,
             o.name);
    }
  }
}

void verify_count(const Graph& graph, const Graph::Output& o) {
  const auto count = std::ranges::find(graph.outputs(), o.count, &Graph::Output::name);
  if (count == graph.outputs().end())
    fail("the output '{}' is counted by '{}', which is not an output", o.name, o.count);
  const TensorType& type = graph.type(count->value);
  if (!is_integer(type.dtype) || type.shape.rank() != 0) {
    fail("the output '{}' is counted by '{}', which is {}; it must be an integer scalar", o.name, o.count,
         type.text());
  }
  const int64_t rank = graph.type(o.value).shape.rank();
  if (o.axis < 0 || o.axis >= rank)
    fail("the output '{}' is counted along axis {}, but its rank is {}", o.name, o.axis, rank);
}

}  // namespace

void verify(const Graph& graph) {
  if (graph.outputs().empty()) fail("the graph '{}' has no output", graph.name);
  for (int32_t id = 0; id < graph.size(); ++id) verify_node(graph, id);
  for (const Graph::Output& o : graph.outputs()) {
    if (!o.count.empty()) verify_count(graph, o);
  }
  std::map<ValueId, int32_t> writer;  // of each version of a state
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (!n.op->overwrites(static_cast<int64_t>(i))) continue;
      if (const auto [it, fresh] = writer.emplace(n.inputs[i], id); !fresh) {
        fail("node '{}' writes a state that '{}' has already overwritten; write the value that it returned",
             n.name, graph.node(it->second).name);
      }
    }
  }
}

}  // namespace rlx
