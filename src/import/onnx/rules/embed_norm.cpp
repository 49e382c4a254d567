// EmbedLayerNormalization and QEmbedLayerNormalization of com.microsoft: a norm of the sum of embeddings of
// words, positions and segments.
#include "import/onnx/quantized.h"
#include "import/onnx/rules.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/spectra.h"

namespace rlx::onnx {
namespace {

Value word_ids(Call& c) {
  const Value ids = c.in(0);
  if (ids.shape().rank() != 2) fail("its input_ids {} are not [batch, sequence]", ids.shape().text());
  return ids;
}

// How many words are not masked, or zeros if there is no mask.
void counts_out(Call& c, const Value& ids) {
  if (!c.wants(1)) return;
  const DType index = DType::i32;
  const Value counts = c.has(7) ? rlx::sum(cast(equal(c.in(7), 1), index), {1})
                                : expand(c.graph().scalar(index, 0), {ids.shape()[0]});
  c.out(1, counts, ElementType::int32);
}

void embed_layer_norm_rule(Call& c) {
  c.expect_inputs(7, 9);
  c.ignores("mask_index_type");
  const Value ids = word_ids(c);
  const Value table = c.in(3);
  const Value positions = c.has(8) ? gather(table, c.in(8)) : slice(table, 0, 0, ids.shape()[1]);
  Value sum = gather(c.in(2), ids) + positions;
  if (c.has(1)) sum = sum + gather(c.in(4), c.in(1));
  const ElementType type = c.type(2);
  c.out(0, layer_norm(sum, c.in(5), c.in(6), c.real("epsilon", 1e-12)), type);
  c.out(2, sum, type);
  counts_out(c, ids);
}

// Tables, gamma and beta are bytes; the scale of input i is input i + 6, its zero point input i + 11.
void quantized_embed_layer_norm_rule(Call& c) {
  c.expect_inputs(13, 18);
  const auto real = [&](int64_t input, Value bytes) {
    return dequantize(bytes, as_f32(c.in(input + 6)), c.optional(input + 11), 0);
  };
  const Value ids = word_ids(c);
  Value sum = real(2, gather(c.in(2), ids)) + real(3, slice(c.in(3), 0, 0, ids.shape()[1]));
  if (c.has(1)) sum = sum + real(4, gather(c.in(4), c.in(1)));
  c.out(0, layer_norm(sum, real(5, c.in(5)), real(6, c.in(6)), c.real("epsilon", 1e-12)),
        ElementType::float32);
  counts_out(c, ids);
}

}  // namespace

namespace rules {
void register_embed_norm(RuleTable& table) {
  table.add(kMicrosoft, "EmbedLayerNormalization", embed_layer_norm_rule);
  table.add(kMicrosoft, "QEmbedLayerNormalization", quantized_embed_layer_norm_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
