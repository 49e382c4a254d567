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

WithEpilogue with_epilogue(const std::shared_ptr<const Kernel>& kernel, const Expr& expr) {
  if (expr.steps.empty()) return {kernel, {}};
  Kernel k = *kernel;
  std::vector<std::string> inputs = {"product"};
  for (size_t i = 1; i < expr.inputs.size(); ++i) {
    inputs.push_back(formatted("e{}_at(i)", i));
    k.operands.push_back({formatted("e{}", i), OperandDecl::Kind::any, false, false});
  }
  const ExprCode code = generate(expr, inputs);
  std::string members;
  for (const std::string& m : code.params) members += "  " + m + ",\n";
  replace_line(k.source, "//@ params", members);
  // The product is rounded as if it had been stored.
  replace_line(k.source, "//@ epilogue",
               formatted("fn epilogue(v: y_t, i: u32) -> y_t {{\n  let product = {};\n{}  return {};\n}}",
                         rounded("v", expr.inputs[0]), code.statements, code.result));
  k.params_bytes += 4 * code.words.size();
  return {std::make_shared<const Kernel>(std::move(k)), code.words};
}

}  // namespace rlx
