// The Reduce ops: sums, products and extremes, some of something computed first or with something after.
#include <algorithm>

#include "import/onnx/rules.h"

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
          .nothing = empty && c.flag("noop_with_empty_axes", false)};
}

Value sum_over(Value x, const Over& over) { return over.nothing ? x : sum(x, over.axes, over.keep); }

// Sums of small types are rounded once, at the end.
Value widened(Value x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? cast(x, DType::f32) : x;
}

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
void l1_rule(Call& c) {
  const Over over = reduced_over(c);
  emit(c, sum_over(abs(widened(c.in(0))), over));
}
void sum_square_rule(Call& c) {
  const Over over = reduced_over(c);
  emit(c, sum_over(square(widened(c.in(0))), over));
}
void l2_rule(Call& c) {
  const Over over = reduced_over(c);
  const Value x = c.in(0);
  const Value total = sum_over(square(is_float(x.dtype()) ? widened(x) : cast(x, DType::f32)), over);
  emit(c, sqrt(total));
}
void log_sum_rule(Call& c) {
  const Over over = reduced_over(c);
  const Value x = c.in(0);
  emit(c, log(sum_over(is_float(x.dtype()) ? widened(x) : cast(x, DType::f32), over)));
}
// Less its maximum, so that nothing overflows; an infinite maximum is the result itself.
void log_sum_exp_rule(Call& c) {
  const Over over = reduced_over(c);
  const Value given = c.in(0);
  const Value x = is_float(given.dtype()) ? widened(given) : cast(given, DType::f32);
  if (over.nothing || x.shape().elements().is(0)) return emit(c, log(sum_over(exp(x), over)));
  const Value top = max(x, over.axes, true);
  const Value finite = where(is_inf(top), 0, top);
  const Value total = log(sum(exp(x - finite), over.axes, over.keep));
  emit(c, total + reshape(finite, total.shape()));
}

}  // namespace

namespace rules {
void register_reduce(RuleTable& table) {
  table.add("ReduceSum", sum_rule);
  table.add("ReduceMean", mean_rule);
  table.add("ReduceProd", prod_rule);
  table.add("ReduceMax", extreme_rule);
  table.add("ReduceMin", extreme_rule);
  table.add("ReduceL1", l1_rule);
  table.add("ReduceL2", l2_rule);
  table.add("ReduceSumSquare", sum_square_rule);
  table.add("ReduceLogSum", log_sum_rule);
  table.add("ReduceLogSumExp", log_sum_exp_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
