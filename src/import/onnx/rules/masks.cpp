// OneHot, Trilu, EyeLike and ReverseSequence.
#include <algorithm>

#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void one_hot_rule(Call& c) {
  c.expect_inputs(3, 3);
  const bool whole = is_integer(c.type(1));
  const Dim depth = whole ? c.dims(1, "the depth").at(0) : Dim(static_cast<int64_t>(c.real(1, "the depth")));
  Value indices = c.in(0);
  if (is_float(indices.dtype())) indices = cast(indices, DType::i64);
  const Value values = c.in(2);
  const Value off = reshape(slice(values, 0, 0, 1), {});
  const Value on = reshape(slice(values, 0, 1, 1), {});
  const int64_t axis = c.axis("axis", -1, indices.shape().rank() + 1);
  c.out(0, one_hot(indices, depth, on, off, axis), c.type(2));
}

void trilu_rule(Call& c) {
  c.expect_inputs(1, 2);
  const int64_t k = c.has(1) ? c.number(1, "the diagonal") : 0;
  // A diagonal far outside keeps all or nothing.
  const int64_t far = std::clamp<int64_t>(k, -(1 << 30), 1 << 30);
  c.out(c.flag("upper", true) ? triu(c.in(0), far) : tril(c.in(0), far));
}

void eye_like_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Shape& like = c.shape(0);
  if (like.rank() != 2) fail("its input {} is no matrix", like.text());
  const ElementType type = c.element_type("dtype", c.type(0));
  c.out(0, eye(c.graph(), like[0], like[1], c.integer("k", 0), c.carried(type)), type);
}

void reverse_sequence_rule(Call& c) {
  c.expect_inputs(2, 2);
  const int64_t rank = c.rank(0);
  c.out(reverse_sequence(c.in(0), c.in(1), c.axis("time_axis", 0, rank), c.axis("batch_axis", 1, rank)));
}

}  // namespace

namespace rules {
void register_masks(RuleTable& table) {
  table.add("OneHot", one_hot_rule);
  table.add("Trilu", trilu_rule);
  table.add("EyeLike", eye_like_rule);
  table.add("ReverseSequence", reverse_sequence_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
