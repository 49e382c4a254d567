#include "import/onnx/rules.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

// CumSum and CumProd.
void cumulative_rule(Call& c) {
  c.expect_inputs(2, 2);
  const Value x = c.in(0);
  const int64_t axis = Call::normalized(c.number(1, "the axis"), x.shape().rank());
  const bool exclusive = c.flag("exclusive", false);
  const bool reverse = c.flag("reverse", false);
  const Value y =
      c.op() == "CumSum" ? cumsum(x, axis, exclusive, reverse) : cumprod(x, axis, exclusive, reverse);
  c.out(c.wrapped(y, c.type(0)));
}

}  // namespace

namespace rules {
void register_cumulative(RuleTable& table) {
  table.add("CumSum", cumulative_rule);
  table.add("CumProd", cumulative_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
