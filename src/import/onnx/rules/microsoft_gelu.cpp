// Gelu, FastGelu, BiasGelu and QuickGelu of com.microsoft.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"

namespace rlx::onnx {
namespace {

Value plus_bias(Call& c) { return c.has(1) ? c.in(0) + c.in(1) : c.in(0); }

void gelu_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.out(gelu(c.in(0)));
}

void bias_gelu_rule(Call& c) {
  c.expect_inputs(2, 2);
  c.out(gelu(plus_bias(c)));
}

void fast_gelu_rule(Call& c) {
  c.expect_inputs(1, 2);
  c.out(gelu_approx(plus_bias(c)));
}

void quick_gelu_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Value x = c.in(0);
  const double alpha = c.real("alpha", 1.702);
  c.out(alpha == 1 ? silu(x) : x * sigmoid(x * alpha));
}

}  // namespace

namespace rules {
void register_microsoft_gelu(RuleTable& table) {
  table.add(kMicrosoft, "Gelu", gelu_rule);
  table.add(kMicrosoft, "BiasGelu", bias_gelu_rule);
  table.add(kMicrosoft, "FastGelu", fast_gelu_rule);
  table.add(kMicrosoft, "QuickGelu", quick_gelu_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
