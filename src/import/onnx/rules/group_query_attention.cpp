// GroupQueryAttention of com.microsoft: causal attention of a decoder that keeps its keys and values.
#include "import/onnx/attention.h"

#include <algorithm>

#include "import/onnx/rules.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// A size as a tensor, [1].
Value number(const Call& c, const Dim& size) { return range(c.graph(), 1, size, 1, DType::i32); }

// The new tokens, [batch, sequence, heads * head].
struct Tokens {
  Value q, k, v;
  int64_t heads, kv_heads;
  Dim head;

  const Dim& batch() const { return q.shape()[0]; }
  const Dim& length() const { return q.shape()[1]; }
};

Tokens tokens_of(Call& c) {
  Tokens t{.q = c.in(0),
           .k = {},
           .v = {},
           .heads = c.integer("num_heads"),
           .kv_heads = c.integer("kv_num_heads"),
           .head = {}};
  if (t.q.shape().rank() != 3) fail("its query {} is not [batch, sequence, hidden]", t.q.shape().text());
  if (t.heads < 1 || t.kv_heads < 1) fail("it has {} heads and {} of keys", t.heads, t.kv_heads);
  const bool packed = !c.has(1);
  const int64_t parts = packed ? t.heads + 2 * t.kv_heads : t.heads;
  const auto head = Dim::exact_div(t.q.shape()[2], Dim(parts));
  if (!head) fail("its query {} does not consist of {} heads", t.q.shape().text(), parts);
  t.head = *head;
  if (!packed) {
    t.k = c.in(1);
    t.v = c.in(2);
    if (!(t.k.shape()[1] == t.length()))
      fail("its query {} and key {} have different lengths", t.q.shape().text(), t.k.shape().text());
    return t;
  }
  const Value all = t.q;
  const Dim width = t.head * Dim(t.kv_heads);
  const Dim first = t.head * Dim(t.heads);
  t.q = slice(all, 2, 0, first);
  t.k = slice(all, 2, first, width);
  t.v = slice(all, 2, first + width, width);
  return t;
}

// How many tokens come before the new ones in each sequence of the batch: a number if it is the same for
// all, else a tensor [batch, 1].
struct Past {
  Dim count;
  Value counts = {};

  bool none() const { return count.is(0) && !counts; }
};

// seqlens_k holds the index of each sequence's last token. A single sequence has no padding, so that all of
// its past counts, unless the past has room for more.
Past past_of(Call& c, const Tokens& t, bool has_room) {
  const Dim size = c.has(3) ? c.shape(3)[2] : Dim(0);
  if (size.is(0) || (t.batch().is(1) && !has_room)) return {size};
  const Value last = reshape(cast(c.in(5), DType::i32), {t.batch(), 1});
  return {size, maximum(last + number(c, Dim(1) - t.length()), 0)};
}

// Where the new tokens are, [batch, sequence] or [sequence]. Of positions that are given with a prompt (no
// past), ONNX Runtime uses the first alone.
Value positions_of(Call& c, const Tokens& t, const Past& past) {
  if (!c.has(9)) {
    if (past.none()) return {};
    const Value own = range(c.graph(), t.length(), past.counts ? Dim(0) : past.count, 1, DType::i32);
    return past.counts ? own + past.counts : own;
  }
  Value given = c.in(9);
  if (past.count.is_static() && !past.count.is(0)) return given;
  const Value first = slice(slice(given, 0, 0, 1), 1, 0, 1);
  Value of_prompt = first + range(c.graph(), t.length(), 0, 1, given.dtype());
  if (past.count.is(0)) return of_prompt;
  return where(equal(number(c, past.count), 0), of_prompt, given);
}

Value rotated(Call& c, const Tokens& t, Value positions, Value x) {
  const Value cos = c.in(7);
  const int64_t size = 2 * cos.shape()[1].value();
  return rope(x, cos, c.in(8), t.head.value(), c.flag("rotary_interleaved", false), size, positions);
}

// Past keys or values [batch, heads, size, head] and the new ones after the last that counts.
Value present_of(Call& c, const Tokens& t, const Past& past, int64_t input, Value fresh, const Dim& size) {
  if (!past.counts) return with_past(c.optional(input), by_heads(fresh, t.kv_heads));
  const Dim& length = t.length();
  // Row b * length + (j - counts[b]) of the new ones is at j.
  const Value here = reshape(range(c.graph(), size, 0, 1, DType::i32), {1, size}) - past.counts;
  const Value first =
      reshape(range(c.graph(), t.batch(), 0, 1, DType::i32), {t.batch(), 1}) * number(c, length);
  const Value row = first + minimum(maximum(here, 0), number(c, length - 1));
  const Value rows = reshape(fresh, {t.batch() * length, fresh.shape()[2]});
  const Value moved = by_heads(gather(rows, row), t.kv_heads);
  Value old = c.in(input);
  if (!(past.count == size)) {
    Shape rest = old.shape();
    rest[2] = size - past.count;
    old = concat({old, expand(c.like(old, 0), rest)}, 2);
  }
  // Nothing comes after the last.
  const Value place = reshape(here, {t.batch(), 1, size, 1});
  return where(less(place, 0), old, where(less(place, number(c, length)), moved, 0));
}

// Each query sees the keys up to its own, and with a window no more than that many before it.
void look_back(Call& c, AttentionCall& a, const Past& past) {
  const int64_t window = c.integer("local_window_size", -1);
  if (!past.counts) {
    a.mask = window > 0 ? MaskKind::sliding_window : MaskKind::causal;
    a.window = std::max<int64_t>(window, 0);
    return;
  }
  Value own = query_indices(a, past.counts ? Dim(0) : past.count, DType::i32);
  if (past.counts) own = own + reshape(past.counts, {past.counts.shape()[0], 1, 1, 1});
  const Value keys = key_indices(a, DType::i32);
  a.keep_only(less_equal(keys, own));
  if (window > 0) a.keep_only(greater_equal(keys, own - static_cast<double>(window)));
}

void group_query_attention_rule(Call& c) {
  c.expect_inputs(7, 12);
  c.ignores("rotary_interleaved smooth_softmax kv_cache_bit_width qk_norm_epsilon");  // not always of use
  if (c.integer("qk_output", 0) != 0) c.refuse(Refusal::other, "the attribute qk_output is not supported");
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    const std::string type = c.text(name, "NONE");
    if (type != "NONE") c.refuse(Refusal::other, "{}='{}' is not supported", name, excerpt(type));
  }
  Tokens t = tokens_of(c);
  // The past may have room for the new tokens, if it is the memory of the present too: total_sequence_length
  // tells.
  const Dim past_size = c.has(3) ? c.shape(3)[2] : Dim(0);
  const Ints* total = c.known(6);
  const bool has_room = total && total->values.size() == 1 && (past_size - total->values[0]).is_size();
  const Past past = past_of(c, t, has_room);
  if (c.flag("do_rotary", false)) {
    const Value positions = positions_of(c, t, past);
    t.q = rotated(c, t, positions, t.q);
    t.k = rotated(c, t, positions, t.k);
  }
  const Dim size = has_room ? past_size : past_size + t.length();
  AttentionCall a{.q = by_heads(t.q, t.heads),
                  .k = present_of(c, t, past, 3, t.k, size),
                  .v = present_of(c, t, past, 4, t.v, size),
                  .soft_cap = c.real("softcap", 0)};
  if (const double scale = c.real("scale", 0); scale != 0) a.scale = scale;
  if (c.has(11)) {
    a.sinks = c.in(11);
  } else if (c.integer("smooth_softmax", 0) == 1) {
    a.sinks = expand(c.like(a.q, 0), {t.heads});
  }
  look_back(c, a, past);
  if (c.has(10)) a.add_bias(fitted(fitted(c.in(10), -2, a.queries()), -1, a.keys()));
  c.out(attend(a, AttentionLayout::bsd));
  c.out(1, a.k, c.type(0));
  c.out(2, a.v, c.type(0));
}

}  // namespace

namespace rules {
void register_group_query_attention(RuleTable& table) {
  table.add(kMicrosoft, "GroupQueryAttention", group_query_attention_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
