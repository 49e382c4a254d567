#include "ops/epilogue.h"

#include "base/fail.h"

namespace rlx {
namespace {

void replace_line(std::string& source, std::string_view marker, const std::string& text) {
  const size_t at = source.find(marker);
  check(at != std::string::npos, "a kernel with an epilogue has the lines for it");
  const size_t begin = source.rfind('\n', at) + 1;
  source.replace(begin, source.find('\n', at) - begin, text);
}

}  // namespace

WithEpilogue with_epilogue(const KernelPtr& kernel, const Expr& expr) {
  if (expr.steps.empty()) return {kernel, {}};
  std::string operands;
  std::vector<std::string> inputs = {"product"};
  for (size_t i = 1; i < expr.inputs.size(); ++i) {
    inputs.push_back(formatted("e{}_at(i)", i));
    operands += formatted("//@ in e{} any\n", i);
  }
  const ExprCode code = generate(expr, inputs);
  std::string members;
  for (const std::string& m : code.params) members += "  " + m + ",\n";
  std::string text = kernel->text;
  replace_line(text, "//@ params", members);
  // The product is rounded as if it had been stored.
  replace_line(text, "//@ epilogue",
               formatted("{}fn epilogue(v: y_t, i: u32) -> y_t {{\n  let product = {};\n{}  return {};\n}}",
                         operands, rounded("v", expr.inputs[0]), code.statements, code.result));
  return {parse_kernel(std::move(text)), code.words};
}

}  // namespace rlx
