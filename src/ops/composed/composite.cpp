#include "ops/composed/composite.h"

#include "base/format.h"
#include "ir/reference.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

std::string leaf_name(int64_t i) { return formatted("x{}", i); }

// The error without the names of inner nodes, and with that of the op.
Error composite_error(const Error& e, std::string_view op) {
  std::string_view text = e.what();
  while (text.starts_with("node '")) {
    const size_t end = text.find("': ");
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 3);
  }
  const std::string prefix = formatted("{}: ", op);
  return {e.kind(), text.starts_with(prefix) ? std::string(text) : prefix + std::string(text)};
}

}  // namespace

std::vector<TensorType> CompositeOp::infer(const InferArgs& in) const {
  in.expect_count(input_count().least, input_count().most);
  Graph graph;
  std::vector<TensorType> types;
  for (const Value& v : made_in(graph, in.count(), [&](int64_t i) -> std::optional<TensorType> {
         return in.has(i) ? std::optional(in[i]) : std::nullopt;
       }))
    types.push_back(graph.type(v.id()));
  return types;
}

std::optional<std::vector<Value>> CompositeOp::expand(const ExpandArgs& in) const {
  return made(in.graph, in.inputs);
}

void CompositeOp::reference(RefContext& r) const {
  Graph graph;
  NamedTensors leaves;
  const std::vector<Value> made =
      made_in(graph, r.input_count(), [&](int64_t i) -> std::optional<TensorType> {
        const RefTensor* t = r.optional_in(i);
        if (!t) return std::nullopt;
        leaves.emplace(leaf_name(i), t->to_tensor());
        return TensorType{t->dtype, Shape(t->dims)};
      });
  for (size_t i = 0; i < made.size(); ++i) graph.output(formatted("y{}", i), made[i]);
  std::map<std::string, RefTensor> outputs = run_reference(graph, leaves);
  for (size_t i = 0; i < made.size(); ++i)
    r.out(static_cast<int64_t>(i)) = std::move(outputs.at(formatted("y{}", i)));
}

template <class TypeOf>
std::vector<Value> CompositeOp::made_in(Graph& graph, int64_t count, const TypeOf& type_of) const {
  std::vector<Value> inputs;
  for (int64_t i = 0; i < count; ++i) {
    const std::optional<TensorType> type = type_of(i);
    inputs.push_back(type ? graph.input(leaf_name(i), type->dtype, type->shape) : Value());
  }
  return made(graph, std::move(inputs));
}

std::vector<Value> CompositeOp::made(Graph& graph, std::vector<Value> inputs) const {
  const int64_t most = input_count().most;
  if (most < kMany) inputs.resize(std::max(inputs.size(), static_cast<size_t>(most)));
  try {
    return nodes(graph, inputs);
  } catch (const Error& e) {
    throw composite_error(e, name());
  }
}

OpInfo composite_info(std::string_view op, std::string_view formula, const CompositeLines& lines,
                      std::string_view types, std::initializer_list<std::string_view> samples) {
  std::vector<std::string> calls;
  for (const std::string_view sample : samples) calls.push_back(std::string(op) + std::string(sample));
  return {.formula = std::string(formula),
          .operands = lines.operands,
          .attributes = lines.attributes,
          .outputs = lines.outputs,
          .types = std::string(types),
          .variants = {"expanded"},
          .samples = std::move(calls)};
}

}  // namespace rlx
