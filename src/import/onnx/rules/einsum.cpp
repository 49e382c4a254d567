// Einsum and Det.
#include "import/onnx/rules.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx::onnx {
namespace {

void einsum_rule(Call& c) { c.out(c.wrapped(einsum(c.text("equation"), c.all()), c.type(0))); }

void det_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.out(det(c.in(0)));
}

}  // namespace

namespace rules {
void register_einsum(RuleTable& table) {
  table.add("Einsum", einsum_rule);
  table.add("Det", det_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
