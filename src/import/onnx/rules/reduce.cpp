// The Reduce ops: sums, products and extremes, some of something computed first or with something after.
#include <algorithm>

#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

struct Over {
  std::vector<int64_t> axes;  // none: all
  bool keep;
  bool nothing;  // the op does nothing but what it does to single elements
};

Over reduced_over(Call& c) {
  c.expect_inputs(1, 2);
  const int64_t rank = c.rank(0);
  const auto axes = c.axes(1, rank);
  const bool empty = !axes || axes->empty();
  return {.axes = axes.value_or(std::vector<int64_t>()),
          .keep = c.flag("keepdims", true),
          .nothing = c.flag("noop_with_empty_axes", false) && empty};
}

Value sum_over(Value x, const Over& over) { return over.nothing ? x : sum(x, over.axes, over.keep); }

void emit(Call& c, Value y) {
  const DType dtype = c.carried(c.type(0));
  c.out(c.wrapped(y.dtype() == dtype ? y : cast(y, dtype), c.type(0)));
}

void sum_rule(Call& c) {
  const Over over = reduced_over(c);
  emit(c, sum_over(c.in(0), over));
}
void mean_rule(Call& c) {
  const Over over = reduced_over(c);
  const Value x = c.in(0);
  if (over.nothing) return emit(c, x);
  if (is_float(c.type(0))) return emit(c, mean(x, over.axes, over.keep));
  const Value total = sum(x, over.axes, over.keep);
  Dim count(1);
  for (int64_t i = 0; i < x.shape().rank(); ++i) {
    if (over.axes.empty() || std::ranges::contains(over.axes, i)) count *= x.shape()[i];
  }
  emit(c, total / c.materialize(Ints::scalar(count), c.type(0)));
}
void prod_rule(Call& c) {
  const Over over = reduced_over(c);
  emit(c, over.nothing ? c.in(0) : prod(c.in(0), over.axes, over.keep));
}
// Of bools, the largest is whether any is true.
void extreme_rule(Call& c) {
  const Over over = reduced_over(c);
  Value x = c.in(0);
  if (over.nothing) return emit(c, x);
  if (x.dtype() == DType::bool_) x = cast(x, DType::u8);
  emit(c, c.op() == "ReduceMax" ? max(x, over.axes, over.keep) : min(x, over.axes, over.keep));
}
// What it is of one element, where nothing is reduced, is a reduction over no axis of another one.
void composite_rule(Call& c, Value (*reduction)(Value, std::vector<int64_t>, bool)) {
  const Over over = reduced_over(c);
  const Value x = c.in(0);
  if (!over.nothing) return emit(c, reduction(x, over.axes, over.keep));
  Shape apart = x.shape();
  apart.push_back(1);
  emit(c, reduction(reshape(x, apart), {-1}, false));
}
template <Value (*kReduction)(Value, std::vector<int64_t>, bool)>
void reduction_rule(Call& c) {
  composite_rule(c, kReduction);
}

}  // namespace

namespace rules {
void register_reduce(RuleTable& table) {
  table.add("ReduceSum", sum_rule);
  table.add("ReduceMean", mean_rule);
  table.add("ReduceProd", prod_rule);
  table.add("ReduceMax", extreme_rule);
  table.add("ReduceMin", extreme_rule);
  table.add("ReduceL1", reduction_rule<l1_norm>);
  table.add("ReduceL2", reduction_rule<l2_norm>);
  table.add("ReduceSumSquare", reduction_rule<sum_square>);
  table.add("ReduceLogSum", reduction_rule<log_sum>);
  table.add("ReduceLogSumExp", reduction_rule<log_sum_exp>);
}
}  // namespace rules

}  // namespace rlx::onnx
