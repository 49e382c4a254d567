#include "passes/region.h"

#include <algorithm>

#include "ir/op.h"

namespace rlx {

std::optional<double> scalar_constant(const Graph& graph, ValueId value) {
  const auto* constant = op_cast<Constant>(*graph.producer(value).op);
  if (!constant || constant->value.elements() != 1 || constant->value.dtype() == DType::c64)
    return std::nullopt;
  return constant->value.real(0);
}

Expr::Arg Region::use(ValueId value) {
  // A constant that stretches the result ([1, 1] next to [3]) must stay an input.
  if (const auto number = scalar_constant(graph_, value); number && graph_.type(value).shape.rank() == 0) {
    return Expr::constant(*number);
  }
  const auto it = std::ranges::find(inputs, value);
  if (it != inputs.end()) return Expr::input(static_cast<int32_t>(it - inputs.begin()));
  inputs.push_back(value);
  expr.inputs.push_back(value_dtype(graph_.type(value).dtype));
  return Expr::input(static_cast<int32_t>(inputs.size()) - 1);
}

Expr::Arg Region::splice(const Expr& other, const std::vector<Expr::Arg>& args) {
  const auto base = static_cast<int32_t>(expr.steps.size());
  for (Expr::Step step : other.steps) {
    for (Expr::Arg& a : step.args) {
      if (a.kind == Expr::Arg::Kind::input) {
        a = args[static_cast<size_t>(a.index)];
      } else if (a.kind == Expr::Arg::Kind::step) {
        a.index += base;
      }
    }
    expr.steps.push_back(std::move(step));
  }
  if (other.steps.empty()) return args.at(0);
  return {Expr::Arg::Kind::step, static_cast<int32_t>(expr.steps.size()) - 1, 0};
}

}  // namespace rlx
