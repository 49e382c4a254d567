// Functions around attention that are made of other ops: biases, and joining results for parts of the keys.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/fail.h"
#include "rlx/graph.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

// Weights for each query [batch, heads, queries] as a factor of results in a layout.
Value for_results(Value weights, AttentionLayout layout) {
  const Shape& s = weights.shape();
  if (layout == AttentionLayout::bhsd) return reshape(weights, {s[0], s[1], s[2], 1});
  return reshape(transpose(weights, {0, 2, 1}), {s[0], s[2], s[1], 1});
}

// The bucket of T5 for each distance from 0 to max_distance, after which it stays the same; computed in f32
// as the published models do, since a distance at the edge of a bucket may fall on either side of it.
std::vector<int64_t> distance_buckets(int64_t buckets, int64_t max_distance) {
  const int64_t exact = buckets / 2;
  const auto span =
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  std::vector<int64_t> out;
  for (int64_t d = 0; d <= max_distance; ++d) {
    if (d < exact) {
      out.push_back(d);
      continue;
    }
    const float far = std::log(static_cast<float>(d) / static_cast<float>(exact)) / span *
                      static_cast<float>(buckets - exact);
    out.push_back(std::min(exact + static_cast<int64_t>(far), buckets - 1));
  }
  return out;
}

}  // namespace

AttentionPart join_attention(const AttentionPart& a, const AttentionPart& b, AttentionLayout layout) {
  if (layout == AttentionLayout::bsd)
    fail("join_attention: the layout bsd does not tell heads apart; reshape the results to bshd");
  const Value most = maximum(a.log_sum, b.log_sum);
  // Where neither part has a key, -inf - -inf would be NaN.
  const Value base = where(equal(most, -std::numeric_limits<double>::infinity()), 0, most);
  const Value of_a = exp(a.log_sum - base);
  const Value of_b = exp(b.log_sum - base);
  const Value total = of_a + of_b;
  const Value divisor = where(equal(total, 0), 1, total);
  const DType type = a.y.dtype();
  const auto part = [&](const Value& y, const Value& weight) {
    return cast(y, DType::f32) * for_results(weight / divisor, layout);
  };
  return {cast(part(a.y, of_a) + part(b.y, of_b), type), base + log(total)};
}

Value alibi_slopes(Graph& graph, int64_t heads, double max_bias) {
  if (heads < 1) fail("alibi_slopes: there are {} heads; there must be at least one", heads);
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t h = 0; h < heads; ++h) {
    const bool extra = h >= power;
    const auto step = static_cast<double>(extra ? 2 * (h - power) + 1 : h + 1);
    slopes.push_back(std::exp2(-max_bias * step / static_cast<double>(extra ? 2 * power : power)));
  }
  return graph.constant(Tensor::from_doubles(DType::f32, {heads}, slopes));
}

Value relative_position_bias(Value table, Dim queries, Dim keys, bool bidirectional, int64_t max_distance) {
  if (table.shape().rank() != 2 || !table.shape()[0].is_static())
    fail("relative_position_bias: the table is {}; it must be [buckets, heads]", table.shape().text());
  const int64_t all = table.shape()[0].value();
  const int64_t buckets = bidirectional ? all / 2 : all;
  if (buckets < 2 || max_distance <= buckets / 2) {
    fail("relative_position_bias: {} buckets for distances up to {} cannot be told apart", buckets,
         max_distance);
  }
  Graph& graph = table.graph();
  const Value own = reshape(range(graph, queries, keys - queries, 1, DType::i32), {queries, 1});
  const Value key = reshape(range(graph, keys, 0, 1, DType::i32), {1, keys});
  const Value ahead = key - own;
  const std::vector<int64_t> of_distance = distance_buckets(buckets, max_distance);
  const Value lookup = graph.constant(Tensor::from_ints(DType::i32, {max_distance + 1}, of_distance));
  const Value distance = bidirectional ? abs(ahead) : maximum(-ahead, 0);
  Value bucket = gather(lookup, minimum(distance, static_cast<double>(max_distance)));
  if (bidirectional) bucket = where(greater(ahead, 0), bucket + static_cast<double>(buckets), bucket);
  return transpose(gather(table, bucket), {2, 0, 1});
}

}  // namespace rlx
