// SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft: norms of sums.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

// input + skip + bias, rounded once. The bias goes to the input, which a product often makes; the last sum is
// one with the norm then.
Value skip_sum(Call& c, int64_t bias) {
  const DType type = c.carried(c.type(0));
  const auto wide = [](Value x) { return x.dtype() == DType::f32 ? x : cast(x, DType::f32); };
  const Value x = c.has(bias) ? wide(c.in(0)) + wide(c.in(bias)) : wide(c.in(0));
  const Value y = x + wide(c.in(1));
  return type == DType::f32 ? y : cast(y, type);
}

// The mean (of a centered norm) and the reciprocal of the deviation, in f32 as ONNX Runtime has them.
void emit_statistics(Call& c, Value x, double eps, bool centered) {
  if (!c.wants(1) && !c.wants(2)) return;
  const Value wide = x.dtype() == DType::f32 ? x : cast(x, DType::f32);
  const Value average = mean(wide, {-1}, true);
  const Value from = centered ? wide - average : wide;
  if (centered) c.out(1, average, ElementType::float32);
  c.out(2, rsqrt(mean(square(from), {-1}, true) + eps), ElementType::float32);
}

void skip_layer_norm_rule(Call& c) {
  c.expect_inputs(3, 5);
  const double eps = c.real("epsilon", 1e-12);
  const Value x = skip_sum(c, 4);
  c.out(layer_norm(x, c.in(2), c.optional(3), eps));
  emit_statistics(c, x, eps, true);
  c.out(3, x, c.type(0));
}

void skip_rms_norm_rule(Call& c) {
  c.expect_inputs(3, 4);
  const double eps = c.real("epsilon", 1e-12);
  const Value x = skip_sum(c, 3);
  c.out(rms_norm(x, c.in(2), {}, eps));
  emit_statistics(c, x, eps, false);
  c.out(3, x, c.type(0));
}

}  // namespace

namespace rules {
void register_skip_norms(RuleTable& table) {
  table.add(kMicrosoft, "SkipLayerNormalization", skip_layer_norm_rule);
  table.add(kMicrosoft, "SkipSimplifiedLayerNormalization", skip_rms_norm_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
