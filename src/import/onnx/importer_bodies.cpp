// The importer, sub-graphs: bodies of branches and loops, sub-graphs in place, and what they see of the names
// around them.
#include <algorithm>

#include "base/fail.h"
#include "import/onnx/call.h"
#include "import/onnx/importer.h"
#include "import/onnx/importer_parts.h"
#include "ir/op.h"
#include "rlx/graph.h"
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
  if (!scope.outer) fail("its input '{}' is neither an input nor the output of any node", excerpt(name));
  Imported* outer = find(*scope.outer, name);
  if (scope.outer->graph == scope.graph) return outer;
  return &scope.values.emplace(name, capture(scope, name, *outer)).first->second;
}

// A value of the graph around a body.
Imported Importer::capture(Scope& scope, std::string_view name, const Imported& outer) {
  if (outer.elements) {
    std::vector<Imported> elements;
    for (const Imported& one : *outer.elements) elements.push_back(capture(scope, name, one));
    spend(std::ssize(elements));
    return Imported::sequence(std::move(elements), outer.type);
  }
  Imported inner{.type = outer.type, .ints = outer.ints, .absent = outer.absent};
  if (outer.ints || outer.absent) return inner;
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

Imported Importer::body_value(Graph& graph, const std::string& name, const BodyInput& input) {
  if (input.elements) {
    std::vector<Imported> elements;
    for (const BodyInput& one : *input.elements)
      elements.push_back(body_value(graph, element_name(name, std::ssize(elements)), one));
    return Imported::sequence(std::move(elements), input.type);
  }
  Imported out{.type = input.type, .ints = input.known, .absent = input.absent};
  if (out.ints || out.absent) return out;
  const Value value = body_input(graph, name, input.tensor);
  out.value = value.dtype() == *carrier(out.type) ? value : cast(value, *carrier(out.type));
  return out;
}

void Importer::materialize(Frame& frame, Imported& value) {
  if (value.elements) {
    std::vector<Imported> elements = *value.elements;
    for (Imported& one : elements) materialize(frame, one);
    value = Imported::sequence(std::move(elements), value.type);
  } else if (!value.value && value.ints) {
    value.value = Call(*this, frame, NodeProto()).materialize(*value.ints, value.type);
  }
}

bool Importer::captures_lists(Scope& scope, const GraphProto& proto) {
  const auto is_list = [&](std::string_view name) {
    for (const Scope* at = &scope; at; at = at->outer) {
      if (const auto it = at->values.find(name); it != at->values.end()) return !it->second.is_tensor();
    }
    return false;
  };
  for (const NodeProto& n : proto.nodes) {
    spend(1 + std::ssize(n.inputs));
    if (std::ranges::any_of(n.inputs, is_list)) return true;
    for (const AttributeProto& a : n.attributes) {
      if (a.g && captures_lists(scope, *a.g)) return true;
    }
  }
  return std::ranges::any_of(proto.outputs, is_list, &ValueInfo::name);
}

Importer::Body Importer::body(Frame& frame, const GraphProto& proto, const std::vector<BodyInput>& inputs,
                              const std::vector<std::pair<std::string, Value>>& captured) {
  if (frame.depth >= kMaxDepth) fail("sub-graphs are nested more than {} deep", kMaxDepth);
  if (proto.inputs.size() != inputs.size())
    fail("its sub-graph has {} inputs instead of {}", proto.inputs.size(), inputs.size());
  Body out;
  // Of an earlier one at the same address.
  known_.erase(out.graph.get());
  const auto first = leaves_.lower_bound({out.graph.get(), nullptr});
  auto last = first;
  while (last != leaves_.end() && last->first.first == out.graph.get()) ++last;
  leaves_.erase(first, last);
  Scope scope{.graph = out.graph.get(), .outer = &frame.scope};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name(proto.inputs[i].name);
    if (!scope.values.emplace(name, body_value(*out.graph, name, inputs[i])).second)
      fail("its sub-graph has two inputs '{}'", excerpt(name));
  }
  for (const auto& [name, value] : captured) find(scope, name);
  add_initializers(scope, proto);
  Frame inner = inside(frame, scope);
  nodes(inner, proto.nodes);
  for (const ValueInfo& info : proto.outputs) {
    Imported v = *find(scope, info.name);
    materialize(inner, v);
    out.outputs.push_back(std::move(v));
  }
  out.captured = std::move(scope.captured);
  return out;
}

std::vector<Imported> Importer::inlined(Frame& frame, const GraphProto& proto,
                                        const std::vector<Imported>& inputs, const std::string& part) {
  if (frame.depth >= kMaxDepth) fail("sub-graphs are nested more than {} deep", kMaxDepth);
  if (proto.inputs.size() != inputs.size())
    fail("its sub-graph has {} inputs instead of {}", proto.inputs.size(), inputs.size());
  Scope scope{.graph = frame.scope.graph, .outer = &frame.scope};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!scope.values.emplace(proto.inputs[i].name, inputs[i]).second)
      fail("its sub-graph has two inputs '{}'", excerpt(proto.inputs[i].name));
  }
  add_initializers(scope, proto);
  Frame inner = inside(frame, scope);
  if (!part.empty()) inner.prefix = nested_prefix(frame.prefix, part);
  nodes(inner, proto.nodes);
  std::vector<Imported> out;
  for (const ValueInfo& info : proto.outputs) out.push_back(*find(scope, info.name));
  return out;
}

}  // namespace rlx::onnx
