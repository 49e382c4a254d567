#include "import/onnx/rules.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void transpose_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.out(transpose(c.in(0), c.integers("perm")));
}

}  // namespace

namespace rules {
void register_transpose(RuleTable& table) { table.add("Transpose", transpose_rule); }
}  // namespace rules

}  // namespace rlx::onnx
