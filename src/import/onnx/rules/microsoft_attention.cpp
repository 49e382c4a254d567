// Attention, QAttention and MultiHeadAttention of com.microsoft.
#include "import/onnx/attention.h"

#include "import/onnx/quantized.h"
#include "import/onnx/rules.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void refuse_inputs_from(const Call& c, int64_t first, std::initializer_list<std::string_view> names) {
  int64_t i = first;
  for (const std::string_view name : names) {
    if (c.has(i++)) c.refuse(Refusal::other, "the input {} is not supported", name);
  }
}

// Not given or 0: 1/sqrt(head).
std::optional<double> scale_of(const Call& c) {
  const double scale = c.real("scale", 0);
  return scale == 0 ? std::nullopt : std::optional(scale);
}

// Which keys are seen: the lengths of the sequences, their ends and then their starts, or 0 and 1 for each
// key, or for each query and key.
Value seen_keys(Call& c, const AttentionCall& a, int64_t input) {
  const Value mask = c.in(input);
  const Shape& s = mask.shape();
  const Dim batch = a.q.shape()[0];
  if (s.rank() == 2) return greater(reshape(fitted(mask, 1, a.keys()), {s[0], 1, 1, a.keys()}), 0);
  if (s.rank() == 3) {
    const Value whole = fitted(fitted(mask, 1, a.queries()), 2, a.keys());
    return greater(reshape(whole, {s[0], 1, a.queries(), a.keys()}), 0);
  }
  if (s.rank() != 1 || !(s[0] == batch || s[0] == batch * Dim(2)))
    c.refuse(Refusal::other, "the mask {} (input {}) is not supported for a batch of {}", s.text(), input,
             batch.text());
  const Value keys = key_indices(a, mask.dtype());
  const auto bounds = [&](const Dim& first) {
    return reshape(slice(mask, 0, first, batch), {batch, 1, 1, 1});
  };
  const Value before_end = less(keys, bounds(0));
  return s[0] == batch ? before_end : logical_and(before_end, greater_equal(keys, bounds(batch)));
}

// ONNX Runtime adds a large negative number to the scores of keys that are not seen: a query that sees none
// at all has the average by its scores.
void add_masks(Call& c, AttentionCall& a, int64_t mask, int64_t bias, const Dim& past) {
  const double filter = c.real("mask_filter_value", -10000);
  if (c.has(mask)) a.add_bias(where(seen_keys(c, a, mask), c.like(a.q, 0), c.like(a.q, filter)));
  if (c.has(bias)) a.add_bias(fitted(fitted(c.in(bias), -2, a.queries()), -1, a.keys()));
  if (!c.flag("unidirectional", false)) return;
  if (!(a.keys() == past + a.queries())) {
    c.refuse(Refusal::other, "unidirectional is not supported for {} queries and {} new keys",
             a.queries().text(), (a.keys() - past).text());
  }
  a.mask = MaskKind::causal;
}

// --- Attention ---

struct Projected {
  Value q, k, v;  // [batch, heads, sequence, head]
};

// The three from one product.
Projected projected(Call& c, Value all, int64_t heads) {
  const int64_t width = c.shape(1)[1].value();
  const std::vector<int64_t> sizes = c.integers("qkv_hidden_sizes", {width / 3, width / 3, width / 3});
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != width)
    fail("its {} columns of weights are not those of q, k and v", width);
  const std::vector<Value> parts = split(all, 2, sizes);
  return {by_heads(parts[0], heads), by_heads(parts[1], heads), by_heads(parts[2], heads)};
}

// Keys (0) or values (1) of [2, batch, heads, sequence, head].
Value half_of(Value past, int64_t which) {
  const Shape& s = past.shape();
  if (s.rank() != 5) fail("its past {} is not [2, batch, heads, sequence, head]", s.text());
  return reshape(slice(past, 0, which, 1), {s[1], s[2], s[3], s[4]});
}

// Which inputs, besides those of the product, an op has where.
struct PackedInputs {
  int64_t mask, past, bias;
};

// `all` is the product that q, k and v are parts of.
void attend_packed(Call& c, Value all, const PackedInputs& inputs, ElementType type) {
  for (const std::string_view flag : {"do_rotary", "past_present_share_buffer"}) {
    if (c.flag(flag, false)) c.refuse(Refusal::other, "the attribute {} is not supported", flag);
  }
  c.ignores("rotary_embedding_dim");  // nothing is rotated
  const Projected p = projected(c, all, c.integer("num_heads"));
  AttentionCall a{.q = p.q, .k = p.k, .v = p.v, .scale = scale_of(c)};
  Dim past(0);
  if (c.has(inputs.past)) {
    a.k = with_past(half_of(c.in(inputs.past), 0), p.k);
    a.v = with_past(half_of(c.in(inputs.past), 1), p.v);
    past = c.shape(inputs.past)[3];
  }
  add_masks(c, a, inputs.mask, inputs.bias, past);
  c.out(0, attend(a, AttentionLayout::bsd), type);
  if (!c.wants(1)) return;
  const auto leading = [](Value x) {
    Shape s = x.shape();
    s.insert(0, 1);
    return reshape(x, s);
  };
  c.out(1, concat({leading(a.k), leading(a.v)}, 0), type);
}

void attention_rule(Call& c) {
  c.expect_inputs(2, 7);
  refuse_inputs_from(c, 6, {"past_sequence_length"});
  Value all = matmul(c.in(0), c.in(1));
  if (c.has(2)) all = all + c.in(2);
  attend_packed(c, all, {.mask = 3, .past = 4, .bias = 5}, c.type(0));
}

// The product is one of bytes, with a scale for x and one for the weight or for each of its columns.
void quantized_attention_rule(Call& c) {
  c.expect_inputs(5, 9);
  const Value sums = integer_product(c.in(0), zero_point(c, 6), c.in(1), zero_point(c, 7));
  Value all = cast(sums, DType::f32) * (as_f32(c.in(3)) * as_f32(c.in(4)));
  if (c.has(2)) all = all + as_f32(c.in(2));
  constexpr int64_t kNone = 100;  // it has no such input
  attend_packed(c, all, {.mask = 5, .past = 8, .bias = kNone}, c.type(3));
}

// --- MultiHeadAttention ---

// One of several that lie head by head next to each other, [batch, sequence, heads, count, head].
Value unpacked(Value packed, int64_t which) {
  const Shape& s = packed.shape();
  return reshape(slice(packed, 3, which, 1), {s[0], s[1], s[2] * s[4]});
}

// q, k and v as they are given: [batch, sequence, heads * head], or already by heads.
std::vector<Value> separated(Call& c) {
  const Value q = c.in(0);
  if (q.shape().rank() == 5) return {unpacked(q, 0), unpacked(q, 1), unpacked(q, 2)};
  if (c.rank(1) == 5) return {q, unpacked(c.in(1), 0), unpacked(c.in(1), 1)};
  return {q, c.in(1), c.in(2)};
}

void multi_head_attention_rule(Call& c) {
  c.expect_inputs(1, 10);
  refuse_inputs_from(c, 8, {"past_sequence_length", "cache_indirection"});
  const int64_t heads = c.integer("num_heads");
  std::vector<Value> qkv = separated(c);
  Dim bias_start(0);
  for (Value& x : qkv) {
    if (x.shape().rank() == 4) continue;  // keys and values of another layer have their bias
    const Dim width = x.shape()[2];
    if (c.has(3)) x = x + slice(c.in(3), 0, bias_start, width);
    bias_start += width;
    x = by_heads(x, heads);
  }
  AttentionCall a{.q = qkv[0],
                  .k = with_past(c.optional(6), qkv[1]),
                  .v = with_past(c.optional(7), qkv[2]),
                  .scale = scale_of(c)};
  add_masks(c, a, 4, 5, c.has(6) ? c.shape(6)[2] : Dim(0));
  c.out(attend(a, AttentionLayout::bsd));
  c.out(1, a.k, c.type(0));
  c.out(2, a.v, c.type(0));
}

}  // namespace

namespace rules {
void register_microsoft_attention(RuleTable& table) {
  table.add(kMicrosoft, "Attention", attention_rule);
  table.add(kMicrosoft, "QAttention", quantized_attention_rule);
  table.add(kMicrosoft, "MultiHeadAttention", multi_head_attention_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
