// Softmax and LogSoftmax. Before opset 13 the input counts as a matrix, cut in two at the axis.
#include "import/onnx/rules.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

void softmax_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Value given = c.in(0);
  const bool as_matrix = c.opset() < 13;
  int64_t axis = c.axis("axis", as_matrix ? 1 : -1, given.shape().rank());
  Value x = given;
  if (as_matrix && axis != given.shape().rank() - 1) {
    Dim rows(1);
    Dim columns(1);
    for (int64_t i = 0; i < given.shape().rank(); ++i) (i < axis ? rows : columns) *= given.shape()[i];
    x = reshape(x, {rows, columns});
    axis = 1;
  }
  const Value y = c.op() == "Softmax" ? softmax(x, axis) : log_softmax(x, axis);
  c.out(y.shape() == given.shape() ? y : reshape(y, given.shape()));
}

}  // namespace

namespace rules {
void register_softmax(RuleTable& table) {
  table.add("Softmax", softmax_rule);
  table.add("LogSoftmax", softmax_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
