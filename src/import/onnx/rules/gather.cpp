#include "import/onnx/rules.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void gather_rule(Call& c) {
  c.expect_inputs(2, 2);
  c.out(gather(c.in(0), c.in(1), c.axis("axis", 0, c.rank(0))));
}

void gather_elements_rule(Call& c) {
  c.expect_inputs(2, 2);
  c.out(gather_elements(c.in(0), c.in(1), c.axis("axis", 0, c.rank(0))));
}

void gather_nd_rule(Call& c) {
  c.expect_inputs(2, 2);
  c.out(gather_nd(c.in(0), c.in(1), c.integer("batch_dims", 0)));
}

}  // namespace

namespace rules {
void register_gather(RuleTable& table) {
  table.add("Gather", gather_rule);
  table.add("GatherElements", gather_elements_rule);
  table.add("GatherND", gather_nd_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
