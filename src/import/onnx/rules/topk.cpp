#include "import/onnx/rules.h"
#include "rlx/ops/order.h"

namespace rlx::onnx {
namespace {

// Sorted output is also right where the order is left open.
void topk_rule(Call& c) {
  const bool k_is_input = c.opset() >= 10;
  c.expect_inputs(1, 2);
  c.ignores("sorted");
  const Value x = c.in(0);
  const int64_t k = k_is_input ? c.number(1, "the number of elements") : c.integer("k");
  const int64_t axis = c.axis("axis", -1, x.shape().rank());
  const auto [values, indices] = topk(x, k, axis, c.flag("largest", true));
  c.out(0, values, c.type(0));
  c.out(1, indices, ElementType::int64);
}

}  // namespace

namespace rules {
void register_topk(RuleTable& table) { table.add("TopK", topk_rule); }
}  // namespace rules

}  // namespace rlx::onnx
