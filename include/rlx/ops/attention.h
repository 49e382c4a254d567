// Attention and rotary embeddings.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class AttentionLayout {
  bhsd,  // [batch, heads, sequence, head]
  bshd,  // [batch, sequence, heads, head]
  bsd,   // [batch, sequence, heads * head]
};
enum class MaskKind {
  none,
  causal,          // key j for query i when j <= i + (keys - queries): aligned at the bottom right
  sliding_window,  // causal, and j >= i + (keys - queries) - window
};
enum class EmptyRow { zeros, nan };  // the result for a query all of whose scores are minus infinity
struct AttentionOptions {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads; fewer: groups of heads share keys and values
  AttentionLayout layout = AttentionLayout::bhsd;
  MaskKind mask = MaskKind::none;
  int64_t window = 0;
  std::optional<double> scale = {};                                // 1/sqrt(head) when not given
  std::optional<double> soft_cap = {};                             // scores become cap * tanh(score / cap)
  double masked_score = -std::numeric_limits<double>::infinity();  // where a bool mask is false
  EmptyRow empty_row = EmptyRow::zeros;

  // Further tensors; each may be left out, and they can be combined (docs/attention.md).
  // How many keys count in each batch, [batch] or [], integers: those after them are not read. The masks
  // align the last query with the last of them.
  Value lengths = {};
  // A score for each head, [heads], that takes its share in the softmax and has no value.
  Value sinks = {};
  // For each head, [heads], what a score loses for each position between query and key (ALiBi).
  Value slopes = {};
  // Keys and values lie in pages: k and v are [pages, ...] in the layout, and key j of batch b is in row j %
  // page of the page pages[b, j / page], integers; those outside of the cache are the nearest pages.
  Value pages = {};
  // The cache is a ring: key j is in row (start + j) % rows, [batch] or [], integers.
  Value start = {};
  // k or v is i8, to be multiplied by these scales: the shape of k [.., row, head] or [.., row, heads, head]
  // without the last axis, which for the layout bsd is [batch, sequence, kv_heads].
  Value k_scale = {};
  Value v_scale = {};
};
// `mask` broadcasts to [batch, heads, queries, keys]: bool (true keeps) or a float that is added to the
// scores.
Value attention(Value q, Value k, Value v, const AttentionOptions& options, Value mask = {});
// The result for some keys, and the logarithm of the sum of e^score for each query, f32 [batch, heads,
// queries]: a weight is e^(score - log_sum).
struct AttentionPart {
  Value y;
  Value log_sum;
};
AttentionPart attention_with_log_sum(Value q, Value k, Value v, const AttentionOptions& options,
                                     Value mask = {});
// Attention over the keys of both parts, in the layouts bhsd and bshd.
AttentionPart join_attention(const AttentionPart& a, const AttentionPart& b,
                             AttentionLayout layout = AttentionLayout::bhsd);

// ALiBi's slopes f32 [heads]: powers of 2^(-max_bias / heads) if the number of heads is a power of two; those
// of more heads lie between them.
Value alibi_slopes(Graph& graph, int64_t heads, double max_bias = 8);
// T5's biases [heads, queries, keys], to be added to the scores as a mask, from a table [buckets, heads].
// Half of the buckets are for single distances, the others grow up to max_distance; if bidirectional, the
// second half of the table is for keys after the query. The last query is at the last key.
Value relative_position_bias(Value table, Dim queries, Dim keys, bool bidirectional,
                             int64_t max_distance = 128);

// Rotates pairs of the last axis (heads of `head_dim` side by side) by cos and sin [positions, rotated / 2];
// the position is the index along the axis before it, or `positions`[batch, sequence]. `rotated` 0 means
// head_dim.
Value rope(Value x, Value cos, Value sin, int64_t head_dim, bool interleaved = false, int64_t rotated = 0,
           Value positions = {});

}  // namespace rlx
RLX_EXPORT_END
