#include "import/onnx/attention.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"

#include <cmath>
#include <limits>

namespace rlx::onnx {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

Value swapped(Value x) { return transpose(x, {0, 2, 1, 3}); }

// [batch, heads, ..] as [batch, heads of keys, heads that share them, ..].
Value grouped(Value x, const Dim& kv_heads, const Dim& members) {
  const Shape& s = x.shape();
  return reshape(x, {s[0], kv_heads, members, s[2], s[3]});
}

Value per_member(const AttentionCall& a, Value left, Value right) {
  const Dim heads = a.q.shape()[1];
  const Dim kv_heads = a.k.shape()[1];
  if (heads == kv_heads) return matmul(left, right);
  const Value y =
      matmul(grouped(left, kv_heads, heads.floor_div(kv_heads)), grouped(right, kv_heads, Dim(1)));
  const Shape& s = y.shape();
  return reshape(y, {s[0], heads, s[3], s[4]});
}

}  // namespace

Value by_heads(Value x, int64_t heads) {
  if (x.shape().rank() != 3) fail("its input {} is not [batch, sequence, hidden]", x.shape().text());
  if (heads < 1) fail("it has {} heads", heads);
  const Shape& s = x.shape();
  const auto head = Dim::exact_div(s[2], Dim(heads));
  if (!head) fail("{} elements at each position cannot be divided among {} heads", s[2].text(), heads);
  return swapped(reshape(x, {s[0], s[1], Dim(heads), *head}));
}

Value side_by_side(Value x) {
  const Shape& s = x.shape();
  return reshape(swapped(x), {s[0], s[2], s[1] * s[3]});
}

Value with_past(Value past, Value x) { return past ? concat({past, x}, 2) : x; }

Value fitted(Value x, int64_t axis, const Dim& size) {
  const int64_t at = Call::normalized(axis, x.shape().rank());
  const Dim& own = x.shape()[at];
  if (own == size) return x;
  if (own.is_static() && size.is_static())
    fail("axis {} of its input {} should have {} elements", at, x.shape().text(), size.text());
  return slice(x, at, 0, size);
}

Value key_indices(const AttentionCall& a, DType dtype) { return range(a.k.graph(), a.keys(), 0, 1, dtype); }

Value query_indices(const AttentionCall& a, const Dim& first, DType dtype) {
  return reshape(range(a.k.graph(), a.queries(), first, 1, dtype), {a.queries(), 1});
}

Value not_after(const AttentionCall& a, const Dim& past) {
  return less_equal(key_indices(a, DType::i32), query_indices(a, past, DType::i32));
}

void AttentionCall::make_causal(const Dim& past) {
  if (keys() - queries() == past) {
    mask = MaskKind::causal;
  } else {
    keep_only(not_after(*this, past));
  }
}

Value masked(const AttentionCall& a, Value scores) {
  if (a.bias) scores = scores + a.bias;
  return a.keep ? where(a.keep, scores, kNothing) : scores;
}

Value capped(const AttentionCall& a, Value scores) {
  return a.soft_cap > 0 ? tanh(scores / a.soft_cap) * a.soft_cap : scores;
}

Value scaled_scores(const AttentionCall& a) {
  // A number of 16 bits could overflow if it were scaled after the product.
  double scale = a.scale.value_or(0);
  if (!a.scale) scale = 1 / std::sqrt(static_cast<double>(a.q.shape()[3].value()));
  return per_member(a, a.q * scale, transpose(a.k, {0, 1, 3, 2}));
}

Value weighted(const AttentionCall& a, Value weights) { return per_member(a, weights, a.v); }

// A query that sees nothing is NaN, as softmax is then.
Value attend(const AttentionCall& a, AttentionLayout layout) {
  AttentionOptions options{.layout = AttentionLayout::bhsd,
                           .mask = a.mask,
                           .window = a.window,
                           .scale = a.scale,
                           .empty_row = EmptyRow::nan,
                           .sinks = a.sinks};
  if (!(a.q.shape()[1] == a.k.shape()[1])) options.kv_heads = a.k.shape()[1].value();
  if (a.soft_cap > 0) options.soft_cap = a.soft_cap;
  const Value mask = !a.bias ? a.keep : !a.keep ? a.bias : where(a.keep, a.bias, kNothing);
  if (layout == AttentionLayout::bhsd) return attention(a.q, a.k, a.v, options, mask);
  // Heads next to each other need no copy to be side by side.
  options.layout = AttentionLayout::bshd;
  const Value y = attention(swapped(a.q), swapped(a.k), swapped(a.v), options, mask);
  const Shape& s = y.shape();
  return reshape(y, {s[0], s[1], s[2] * s[3]});
}

}  // namespace rlx::onnx
