// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: the input is [batch, classes, ...], the target
// [batch, ...].
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

// The loss of log probabilities. What is to be ignored counts as nothing, also in a mean.
Value likelihood_loss(Call& c, Value logs, Value target, Value weight) {
  const std::string reduction = c.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    fail("its reduction is '{}'", excerpt(reduction));
  const DType type = logs.dtype();
  if (type == DType::f16 || type == DType::bf16) {
    logs = cast(logs, DType::f32);
    if (weight) weight = cast(weight, DType::f32);
  }
  Value counts;  // where: bool, of the dims of the target
  if (c.has_attribute("ignore_index")) {
    counts = not_equal(target, static_cast<double>(c.integer("ignore_index")));
    target = where(counts, target, 0);
  }
  Shape one_class = target.shape();
  one_class.insert(1, 1);
  Value loss = -reshape(gather_elements(logs, reshape(target, one_class), 1), target.shape());
  Value share = weight ? gather(weight, target) : Value();
  if (share) loss = loss * share;
  if (counts) {
    loss = where(counts, loss, 0);
    share = share ? where(counts, share, 0) : cast(counts, loss.dtype());
  }
  if (reduction == "sum" || reduction == "mean") {
    const Value total = sum(loss);
    loss = reduction == "sum" ? total : share ? total / sum(share) : mean(loss);
  }
  return loss.dtype() == type ? loss : cast(loss, type);
}

void likelihood_rule(Call& c) {
  c.expect_inputs(2, 3);
  c.out(likelihood_loss(c, c.in(0), c.in(1), c.optional(2)));
}

void cross_entropy_rule(Call& c) {
  c.expect_inputs(2, 3);
  const Value logs = log_softmax(c.in(0), 1);
  c.out(0, likelihood_loss(c, logs, c.in(1), c.optional(2)), c.type(0));
  if (c.output_count() > 1) c.out(1, logs, c.type(0));
}

}  // namespace

namespace rules {
void register_losses(RuleTable& table) {
  table.add("NegativeLogLikelihoodLoss", likelihood_rule);
  table.add("SoftmaxCrossEntropyLoss", cross_entropy_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
