#include "ops/attention/attention_problem.h"

#include <algorithm>
#include <initializer_list>

namespace rlx {
namespace {

// [batch, heads, length, head] of an operand in the op's layout.
View by_heads(const View& v, AttentionLayout layout, int64_t heads) {
  if (layout == AttentionLayout::bhsd) return v;
  return (layout == AttentionLayout::bsd ? v.split_axis(2, heads) : v).permute({0, 2, 1, 3});
}

View with_axis(View v, int64_t at, int64_t length) {
  v.dims.insert(v.dims.begin() + at, length);
  v.strides.insert(v.strides.begin() + at, 0);
  return v;
}

void slice_all(std::initializer_list<Operand*> operands, int64_t axis, int64_t begin, int64_t length) {
  for (Operand* o : operands) {
    if (o->present()) o->view = o->view.slice(axis, begin, length);
  }
}

void add_forms(AttentionProblem& p, const Lowering& l, int64_t heads) {
  using enum Attention::Input;
  const auto of_batch = [&](int64_t input) {
    Operand o = l.optional_in(input);
    return o.present() ? o.with_view(with_axis(o.view.broadcast_to({p.batch()}), 1, p.kv_heads()), 2) : o;
  };
  const auto of_heads = [&](int64_t input) {
    Operand o = l.optional_in(input);
    return o.present() ? o.with_view(with_axis(o.view.split_axis(0, p.kv_heads()), 0, p.batch()), 2) : o;
  };
  const auto of_rows = [&](int64_t input) {
    Operand o = l.optional_in(input);
    if (!o.present()) return o;
    return o.with_view(p.op->layout == AttentionLayout::bhsd ? o.view : o.view.permute({0, 2, 1}), 2);
  };
  p.lengths = of_batch(kLengths);
  if (p.lengths.present()) p.lengths.view = with_axis(p.lengths.view, 2, p.group());
  p.start = of_batch(kStart);
  p.sinks = of_heads(kSinks);
  p.slopes = of_heads(kSlopes);
  p.k_scale = of_rows(kKScale);
  p.v_scale = of_rows(kVScale);
  if (p.pages.present()) p.pages = p.pages.with_view(with_axis(p.pages.view, 1, p.kv_heads()), 2);
  if (!p.op->log_sum_exp) return;
  p.log_sum = l.out(1).with_view(l.out(1).view.split_axis(1, p.kv_heads()), 2);
  check(p.log_sum.view.dims[2] == heads / p.kv_heads(), "the second output has a number for each head");
}

}  // namespace

std::string AttentionProblem::key() const {
  return formatted("{} heads{} rows{} keys{} head {} value {}{}{}{}", to_string(q.dtype),
                   size_class(batch() * kv_heads()), size_class(rows()), size_class(keys), head(), value(),
                   op->mask == MaskKind::none ? "" : " causal", mask.present() ? " mask" : "",
                   has_forms() ? " forms" : "");
}

AttentionProblem attention_problem(const Attention& op, const Lowering& l) {
  const View& q_view = l.in(0).view;
  const int64_t heads = op.layout == AttentionLayout::bhsd   ? q_view.dims[1]
                        : op.layout == AttentionLayout::bshd ? q_view.dims[2]
                                                             : op.heads;
  const int64_t kv_heads = op.kv_heads != 0 ? op.kv_heads : heads;
  const auto grouped = [&](const Operand& o) {
    return o.with_view(by_heads(o.view, op.layout, heads).split_axis(1, kv_heads), 2);
  };
  const auto shared = [&](const Operand& o) { return o.with_view(by_heads(o.view, op.layout, kv_heads), 2); };
  AttentionProblem p;
  p.op = &op;
  p.q = grouped(l.in(0));
  p.y = grouped(l.out());
  p.k = shared(l.in(1));
  p.v = shared(l.in(2));
  p.mask = l.optional_in(Attention::kMask);
  p.pages = l.optional_in(Attention::kPages);
  p.keys = p.k.view.dims[2] * (p.pages.present() ? p.pages.view.dims[1] : 1);
  p.total = p.keys;
  p.shift = p.keys - p.queries();
  p.nan_when_empty = op.empty_row == EmptyRow::nan && p.keys > 0;
  if (p.mask.present()) {
    const View full = p.mask.view.broadcast_to({p.batch(), heads, p.queries(), p.keys});
    p.mask = p.mask.with_view(full.split_axis(1, kv_heads), 2);
  }
  add_forms(p, l, heads);
  return p;
}

AttentionProblem slice(const AttentionProblem& whole, int64_t axis, int64_t begin, int64_t length) {
  AttentionProblem p = whole;
  slice_all({&p.q, &p.y, &p.mask, &p.log_sum}, axis, begin, length);
  if (axis < 3) slice_all({&p.lengths, &p.sinks, &p.slopes}, axis, begin, length);
  if (axis < 2) slice_all({&p.start, &p.pages}, axis, begin, length);
  // All batches have their pages in the same cache.
  if (axis == 1 || (axis == 0 && !p.pages.present()))
    slice_all({&p.k, &p.v, &p.k_scale, &p.v_scale}, axis, begin, length);
  if (axis == 3) p.shift += begin;
  return p;
}

AttentionProblem slice_keys(const AttentionProblem& whole, int64_t begin, int64_t length) {
  check(!whole.is_cached(), "keys are cut only where they lie one after the other");
  AttentionProblem p = whole;
  slice_all({&p.k, &p.v}, 2, begin, length);
  slice_all({&p.mask}, 4, begin, length);
  p.keys = length;
  p.shift -= begin;
  p.skipped += begin;
  return p;
}

AttentionProblem first_query(const AttentionProblem& p) { return slice(slice(p, 2, 0, 1), 3, 0, 1); }

AttentionProblem first_head(const AttentionProblem& p) {
  return first_query(slice(slice(p, 0, 0, 1), 1, 0, 1));
}

}  // namespace rlx
