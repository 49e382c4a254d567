#include "measure/case_groups.h"

#include "rlx/models.h"
#include "rlx/ops/attention.h"

namespace rlx::measure {
namespace {

constexpr int64_t kHeads = 12, kHead = 64;

// Queries at the end of these keys, one batch of 12 heads of 64.
Graph attended(int64_t queries, int64_t keys, MaskKind mask) {
  Graph g;
  const auto heads = [&](const char* name, int64_t tokens) {
    return g.state(name, DType::f32, {1, kHeads, tokens, kHead});
  };
  output_start(
      g, attention(heads("q", queries), heads("k", keys), heads("v", keys), {.heads = kHeads, .mask = mask}));
  return g;
}
Graph attention_of(int64_t tokens) { return attended(tokens, tokens, MaskKind::none); }
Graph causal_attention_of(int64_t tokens) { return attended(tokens, tokens, MaskKind::causal); }
Graph step_of_attention(int64_t keys) { return attended(1, keys, MaskKind::none); }

// Of scores and of sums of values, for all pairs of a query and a key.
constexpr double attention_flops(double pairs) { return 2 * 2 * pairs * kHeads * kHead; }
constexpr double causal_flops(double tokens) { return attention_flops(tokens * (tokens + 1) / 2); }

Graph bert(int64_t layers) { return models::bert_encoder({.layers = layers}, 1, 128); }

constexpr int64_t kDecoded = 256;
Graph decoder() { return models::decoder_step({.capacity = kDecoded}); }
// The same for one length.
Graph decoder_at_128() { return bind_symbols(decoder(), {{"length", 128}}); }

// 128 tokens: four projections and two wide ones, and the two products of attention.
constexpr double kBertLayer = 2 * (128.0 * 768 * 768 * 4 + 128.0 * 768 * 3072 * 2 + 2.0 * 128 * 128 * 768);

constexpr Case kCases[] = {
    {"attention128", "attention, 12 heads of 64, 128 tokens", [] { return attention_of(128); },
     attention_flops(128.0 * 128)},
    {"attention1024",
     "the same of 1,024 tokens",
     nullptr,
     attention_flops(1024.0 * 1024),
     {},
     {1024, attention_of, {}, 100, 10'000}},
    {"causal128", "causal attention of 128 tokens", [] { return causal_attention_of(128); },
     causal_flops(128)},
    {"causal1024",
     "the same of 1,024 tokens",
     nullptr,
     causal_flops(1024),
     {},
     {1024, causal_attention_of, {}, 100, 10'000}},
    {"attention_step8k", "attention of one query to 8,192 keys", [] { return step_of_attention(8192); },
     attention_flops(8192)},
    {"attention_step32k",
     "the same to 32,768 keys",
     nullptr,
     attention_flops(32768),
     {},
     {32768, step_of_attention, {}, 1000, 100'000}},
    {"decode", "12 small layers, cache longer in each run", decoder, 0, {"length", kDecoded}},
    {"decode_again", "the same at one length", decoder_at_128, 0},
    {"bert-4", "BERT-base with 4 layers, 128 tokens", [] { return bert(4); }, 4 * kBertLayer},
    {"bert-base", "BERT-base, 12 layers, 128 tokens", [] { return bert(12); }, 12 * kBertLayer},
};

}  // namespace

std::span<const Case> transformer_cases() { return kCases; }

}  // namespace rlx::measure
