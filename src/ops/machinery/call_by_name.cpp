#include <algorithm>
#include <memory>

#include "base/border.h"
#include "base/fail.h"
#include "ir/op.h"
#include "ops/control_flow/body.h"
#include "ops/machinery/op_table.h"
#include "rlx/call.h"
#include "rlx/graph.h"
#include "rlx/schema.h"

namespace rlx {
namespace {

std::string names_of_operands(const OpSchema& schema) {
  if (schema.operands.empty()) return "none";
  return joined(schema.operands, [](const OpSchema::Tensor& o) {
    return o.name + (o.optional ? " (optional)" : o.variadic ? "..." : "");
  });
}

void check_operands(const OpSchema& schema, const std::vector<Value>& inputs) {
  const bool any_number = !schema.operands.empty() && schema.operands.back().variadic;
  if (inputs.size() > schema.operands.size() && !any_number) {
    fail(ErrorKind::invalid_argument, "{}: {} inputs were given, but it has {}: {}", schema.name,
         inputs.size(), schema.operands.size(), names_of_operands(schema));
  }
  for (size_t i = 0; i < schema.operands.size(); ++i) {
    const OpSchema::Tensor& o = schema.operands[i];
    if (o.optional || o.variadic || (i < inputs.size() && inputs[i])) continue;
    fail(ErrorKind::invalid_argument, "{}: the operand '{}' is missing (its operands: {})", schema.name,
         o.name, names_of_operands(schema));
  }
}

std::shared_ptr<Op> make_op(const OpInfo& info, const AttributeArguments& given) {
  Attrs attrs;
  for (const auto& [name, argument] : given) {
    attrs.emplace_back(name,
                       std::visit([](const auto& value) { return AttrValue(value); }, argument.value()));
  }
  std::shared_ptr<Op> op = info.make();
  try {
    set_attributes(*op, attrs);
  } catch (const Error& e) {
    const std::string prefix = formatted("{}: ", info.name);
    if (std::string_view(e.what()).starts_with(prefix)) throw;
    throw e.within(std::string(info.name));
  }
  return op;
}

std::vector<Value> add(Graph& graph, std::string_view name, const std::vector<Value>& inputs,
                       const AttributeArguments& attributes) {
  const OpInfo& info = op_table().at(name);
  check_operands(op_schema(name), inputs);
  return all_outputs(graph.add_value(make_op(info, attributes), inputs));
}

}  // namespace

std::vector<Value> call(std::string_view op, const std::vector<Value>& inputs,
                        const AttributeArguments& attributes) try {
  const auto given = std::ranges::find_if(inputs, [](const Value& v) { return static_cast<bool>(v); });
  if (given != inputs.end()) return add(given->graph(), op, inputs, attributes);
  check_operands(op_schema(op), inputs);
  fail(ErrorKind::invalid_argument,
       "{}: has no input that would say to which graph it belongs; give it: call(graph, "
       "\"{}\", ...)",
       op, op);
} catch (...) {
  throw_as_error("calling an op by its name");
}

std::vector<Value> call(Graph& graph, std::string_view op, const std::vector<Value>& inputs,
                        const AttributeArguments& attributes) try {
  return add(graph, op, inputs, attributes);
} catch (...) {
  throw_as_error("calling an op by its name");
}

}  // namespace rlx
