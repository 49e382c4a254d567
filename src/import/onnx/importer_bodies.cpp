// The importer, sub-graphs: bodies of branches and loops, sub-graphs in place, and what they see of the names
// around them.
#include "base/fail.h"
#include "import/onnx/call.h"
#include "import/onnx/importer.h"
#include "import/onnx/importer_parts.h"
#include "ir/op.h"
#include "rlx/ops/elementwise.h"

namespace rlx::onnx {
namespace {

// A sub-graph has the opsets, attributes and names of what it is in.
Frame inside(const Frame& outer, Scope& scope) {
  return {.scope = scope,
          .opsets = outer.opsets,
          .attributes = outer.attributes,
          .prefix = outer.prefix,
          .depth = outer.depth + 1};
}

}  // namespace

Imported* Importer::find(Scope& scope, std::string_view name) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) {
    if (it->second.failed) throw Skipped();
    return &it->second;
  }
  if (!scope.outer) fail("its input '{}' is not the output of any node before it", excerpt(name));
  Imported* outer = find(*scope.outer, name);
  if (scope.outer->graph == scope.graph) return outer;
  return &scope.values.emplace(name, capture(scope, name, *outer)).first->second;
}

// A value of the graph around a body.
Imported Importer::capture(Scope& scope, std::string_view name, const Imported& outer) {
  Imported inner{.type = outer.type, .ints = outer.ints};
  if (outer.ints) return inner;
  const Node& producer = outer.value.graph().producer(outer.value.id());
  if (const auto* constant = op_cast<Constant>(*producer.op)) {
    inner.value = scope.graph->constant(constant->value);
  } else if (producer.op->is(LeafKind::param)) {
    const int32_t there = scope.graph->find(producer.name);
    if (there >= 0 && scope.graph->node(there).op->is(LeafKind::param)) {
      inner.value = scope.graph->value({there, 0});
    } else {
      make_free(*scope.graph, producer.name);
      inner.value = scope.graph->param(producer.name, outer.value.dtype(), outer.value.shape());
    }
  } else {
    inner.value = body_input(*scope.graph, std::string(name), {outer.value.dtype(), outer.value.shape()});
    scope.captured.emplace_back(name, outer.value);
  }
  return inner;
}

Value Importer::body_input(Graph& graph, const std::string& name, const TensorType& type) {
  return graph.input(free_name(graph, name), type.dtype, type.shape);
}

Importer::Body Importer::body(Frame& frame, const GraphProto& proto, const std::vector<BodyInput>& inputs,
                              const std::vector<std::pair<std::string, Value>>& captured) {
  if (frame.depth >= kMaxDepth) fail("sub-graphs are nested more than {} deep", kMaxDepth);
  if (proto.inputs.size() != inputs.size())
    fail("its sub-graph has {} inputs instead of {}", proto.inputs.size(), inputs.size());
  Body out;
  known_.erase(out.graph.get());  // of an earlier one at the same address
  Scope scope{.graph = out.graph.get(), .outer = &frame.scope};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name(proto.inputs[i].name);
    Imported in{.type = inputs[i].type, .ints = inputs[i].known};
    if (!in.ints) {
      const Value value = body_input(*out.graph, name, inputs[i].tensor);
      in.value = value.dtype() == *carrier(in.type) ? value : cast(value, *carrier(in.type));
    }
    if (!scope.values.emplace(name, std::move(in)).second)
      fail("its sub-graph has two inputs '{}'", excerpt(name));
  }
  for (const auto& [name, value] : captured) find(scope, name);
  add_initializers(scope, proto);
  Frame inner = inside(frame, scope);
  nodes(inner, proto.nodes);
  for (const ValueInfo& info : proto.outputs) {
    Imported v = *find(scope, info.name);
    if (!v.value) v.value = Call(*this, inner, NodeProto()).materialize(*v.ints, v.type);
    out.outputs.push_back(std::move(v));
  }
  out.captured = std::move(scope.captured);
  return out;
}

std::vector<Imported> Importer::inlined(Frame& frame, const GraphProto& proto) {
  if (frame.depth >= kMaxDepth) fail("sub-graphs are nested more than {} deep", kMaxDepth);
  Scope scope{.graph = frame.scope.graph, .outer = &frame.scope};
  add_initializers(scope, proto);
  Frame inner = inside(frame, scope);
  nodes(inner, proto.nodes);
  std::vector<Imported> out;
  for (const ValueInfo& info : proto.outputs) out.push_back(*find(scope, info.name));
  return out;
}

}  // namespace rlx::onnx
