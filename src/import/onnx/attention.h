// What the attention ops of ONNX and of com.microsoft have in common.
#pragma once

#include <optional>

#include "import/onnx/call.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"

namespace rlx::onnx {

// [batch, sequence, heads * head] as [batch, heads, sequence, head].
Value by_heads(Value x, int64_t heads);
// [batch, heads, sequence, head] as [batch, sequence, heads * head].
Value side_by_side(Value x);
// Keys or values of earlier calls (if there are any) and then the new ones, [batch, heads, sequence, head].
Value with_past(Value past, Value x);
// A tensor that must have this size along an axis. If the file has different symbols for the two, they are
// taken to be equal, and a run in which there are too few elements is an error.
Value fitted(Value x, int64_t axis, const Dim& size);

struct AttentionCall {
  Value q;                           // [batch, heads, queries, head]
  Value k, v;                        // [batch, heads of keys, keys, head]
  std::optional<double> scale = {};  // 1/sqrt(head) when not given
  double soft_cap = 0;               // 0: none
  MaskKind mask = MaskKind::none;
  int64_t window = 0;
  // Both broadcast to [batch, heads, queries, keys].
  Value keep = {};  // bool: whether the query sees the key
  Value bias = {};  // is added to the score
  // [heads]: a score for each head that takes a share of the weight and has no value. Only `attend` looks at
  // it.
  Value sinks = {};

  const Dim& queries() const { return q.shape()[2]; }
  const Dim& keys() const { return k.shape()[2]; }

  void keep_only(Value condition) { keep = keep ? logical_and(keep, condition) : condition; }
  void add_bias(Value more) { bias = bias ? bias + more : more; }
  // Query i sees the keys up to i + past.
  void make_causal(const Dim& past);
};

// The indices of keys, and those of queries counted from `first` on, as broadcast to scores: [keys] and
// [queries, 1].
Value key_indices(const AttentionCall& a, DType dtype);
Value query_indices(const AttentionCall& a, const Dim& first, DType dtype);
// Whether key j <= query i + past, a bool [queries, keys].
Value not_after(const AttentionCall& a, const Dim& past);

// As one op: [batch, heads, queries, head], or, with the layout `bsd`, what side_by_side makes of it.
Value attend(const AttentionCall& a, AttentionLayout layout);

// The same in steps, for ops that show or change what lies in between. `mask` is not looked at: only `keep`.
Value scaled_scores(const AttentionCall& a);            // [batch, heads, queries, keys]
Value masked(const AttentionCall& a, Value scores);     // with keep and bias
Value capped(const AttentionCall& a, Value scores);     // with soft_cap
Value weighted(const AttentionCall& a, Value weights);  // [batch, heads, queries, head]

}  // namespace rlx::onnx
