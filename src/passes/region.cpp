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
  std::vector<Expr::Arg> steps;  // of `other`, as arguments here
  for (Expr::Step step : other.steps) {
    const Expr::Step before = step;
    for (Expr::Arg& a : step.args) {
      if (a.kind == Expr::Arg::Kind::input) {
        a = args[static_cast<size_t>(a.index)];
      } else if (a.kind == Expr::Arg::Kind::step) {
        a = steps[static_cast<size_t>(a.index)];
      }
    }
    // Where nothing but numbers is left, as in where(mask, 0, 1), one of them must say of which type they
    // are.
    for (size_t i = 0; i < step.args.size(); ++i) {
      const DType type = other.arg_type(before, i);
      if (expr.arg_type(step, i) != type) step.args[i] = expr.cast(step.args[i], type);
    }
    expr.steps.push_back(std::move(step));
    steps.push_back({Expr::Arg::Kind::step, static_cast<int32_t>(expr.steps.size()) - 1, 0});
  }
  return steps.empty() ? args.at(0) : steps.back();
}

}  // namespace rlx
