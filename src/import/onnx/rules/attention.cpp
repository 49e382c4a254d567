// Attention of opset 23 and 24.
#include "import/onnx/attention.h"

#include <limits>

#include "import/onnx/rules.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// A mask may end before the last key: later keys are not seen.
Value up_to_last_key(Call& c, Value mask, const Dim& keys) {
  const Shape& s = mask.shape();
  const int64_t last = s.rank() - 1;
  const Dim missing = keys - s[last];
  if (missing.is(0) || !missing.is_size()) return fitted(mask, last, keys);
  Shape rest = s;
  rest[last] = missing;
  const Value unseen = c.like(mask, mask.dtype() == DType::bool_ ? 0 : kNothing);
  return concat({mask, expand(unseen, rest)}, last);
}

void apply_masks(Call& c, AttentionCall& a) {
  if (c.has(3)) {
    const Value mask = up_to_last_key(c, c.in(3), a.keys());
    if (mask.dtype() == DType::bool_) {
      a.keep_only(mask);
    } else {
      a.add_bias(mask);
    }
  }
  if (c.has(6)) {
    const Value lengths = c.in(6);
    a.keep_only(less(key_indices(a, lengths.dtype()), reshape(lengths, {lengths.shape()[0], 1, 1, 1})));
  }
}

// What the output qk_matmul_output shows of scores, and what softmax is taken of.
Value in_steps(Call& c, const AttentionCall& a) {
  const Value scores = scaled_scores(a);
  const Value with_mask = masked(a, scores);
  const Value with_cap = capped(a, with_mask);
  const Value weights = softmax(with_cap);
  if (c.wants(3)) {
    const int64_t mode = c.integer("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) fail("its qk_matmul_output_mode is {}", mode);
    c.out(3, mode == 0 ? scores : mode == 1 ? with_mask : mode == 2 ? with_cap : weights, c.type(0));
  }
  return weighted(a, weights);
}

// softmax_precision asks for a precision at least; here scores are computed in f32 anyway.
void attention_rule(Call& c) {
  c.expect_inputs(3, 7);
  c.ignores("q_num_heads kv_num_heads qk_matmul_output_mode softmax_precision");  // not always of use
  const bool flat = c.rank(0) == 3;
  const auto heads_of = [&](int64_t i, std::string_view attribute) {
    return flat ? by_heads(c.in(i), c.integer(attribute)) : c.in(i);
  };
  AttentionCall a{.q = heads_of(0, "q_num_heads"),
                  .k = with_past(c.optional(4), heads_of(1, "kv_num_heads")),
                  .v = with_past(c.optional(5), heads_of(2, "kv_num_heads")),
                  .soft_cap = c.real("softcap", 0)};
  if (c.has_attribute("scale")) a.scale = c.real("scale");
  apply_masks(c, a);
  const bool causal = c.flag("is_causal", false);
  const Dim past = c.has(4) ? c.shape(4)[2] : Dim(0);
  // Our op shows no scores, and its cap comes before the mask, where ONNX has it after.
  if (!c.wants(3) && !(a.soft_cap > 0 && (a.keep || a.bias || causal))) {
    if (causal) a.make_causal(past);
    c.out(attend(a, flat ? AttentionLayout::bsd : AttentionLayout::bhsd));
  } else {
    if (causal) a.keep_only(not_after(a, past));
    const Value y = in_steps(c, a);
    c.out(flat ? side_by_side(y) : y);
  }
  c.out(1, a.k, c.type(1));
  c.out(2, a.v, c.type(2));
}

}  // namespace

namespace rules {
void register_attention(RuleTable& table) { table.add("Attention", attention_rule); }
}  // namespace rules

}  // namespace rlx::onnx
