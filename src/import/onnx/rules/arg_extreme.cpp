// ArgMax, ArgMin and Hardmax.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

void arg_rule(Call& c) {
  c.expect_inputs(1, 1);
  Value x = c.in(0);
  const int64_t axis = c.axis("axis", 0, x.shape().rank());
  const bool keep = c.flag("keepdims", true);
  const bool last = c.flag("select_last_index", false);
  const Dim size = x.shape()[axis];
  // The last of equals is the first when read backwards.
  if (last) x = slice(x, axis, size - 1, size, -1);
  Value at = c.op() == "ArgMax" ? argmax(x, axis, keep) : argmin(x, axis, keep);
  if (last) at = c.materialize(Ints::scalar(size - 1), ElementType::int64) - at;
  c.out(0, at, ElementType::int64);
}

// 1 at the first of the largest, 0 elsewhere. Before opset 13, of the input as a matrix.
void hardmax_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Value given = c.in(0);
  Value x = given;
  int64_t axis = c.axis("axis", c.opset() < 13 ? 1 : -1, x.shape().rank());
  if (c.opset() < 13) {
    Dim rows(1);
    Dim columns(1);
    for (int64_t i = 0; i < x.shape().rank(); ++i) (i < axis ? rows : columns) *= x.shape()[i];
    x = reshape(x, {rows, columns});
    axis = 1;
  }
  c.out(reshape(hardmax(x, axis), given.shape()));
}

}  // namespace

namespace rules {
void register_arg_extreme(RuleTable& table) {
  table.add("ArgMax", arg_rule);
  table.add("ArgMin", arg_rule);
  table.add("Hardmax", hardmax_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
