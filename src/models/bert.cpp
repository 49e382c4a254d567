#include "base/border.h"
#include "base/fail.h"
#include "ops/elementwise/elementwise.h"
#include "rlx/models.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/rearrange.h"

namespace rlx::models {
namespace {

class BertBuilder {
 public:
  BertBuilder(const BertConfig& config, Dim batch, Dim seq)
      : config_(config), batch_(std::move(batch)), seq_(std::move(seq)) {
    graph_.name = "bert";
  }

  Graph build() {
    Value x = embeddings();
    const Value mask = keep_mask();
    for (int64_t layer = 0; layer < config_.layers; ++layer) x = encoder_layer(x, mask, layer);
    graph_.output("last_hidden_state", x);
    if (config_.pooler) graph_.output("pooler_output", pooler(x));
    return std::move(graph_);
  }

 private:
  Value param(const std::string& name, Shape shape) {
    return graph_.param(name, config_.dtype, std::move(shape));
  }
  Value ids(const std::string& name) { return graph_.input(name, DType::i64, {batch_, seq_}); }

  // x * weight^T + bias: the files store weights as [out, in], and the matmul reads the transposed view.
  Value linear(Value x, const std::string& name, int64_t in, int64_t out) {
    const Value weight = param(name + ".weight", {out, in});
    return (matmul(x, transpose(weight)) + param(name + ".bias", {out})).named(name);
  }

  Value norm(Value x, const std::string& name) {
    const Value gamma = param(name + ".weight", {config_.hidden});
    const Value beta = param(name + ".bias", {config_.hidden});
    return layer_norm(x, gamma, beta, config_.eps).named(name);
  }

  Value embeddings() {
    const Value words = param("embeddings.word_embeddings.weight", {config_.vocab, config_.hidden});
    const Value positions =
        param("embeddings.position_embeddings.weight", {config_.max_positions, config_.hidden});
    const Value types =
        param("embeddings.token_type_embeddings.weight", {config_.token_types, config_.hidden});
    const Value sum =
        gather(words, ids("input_ids")) + gather(types, ids("token_type_ids")) + slice(positions, 0, 0, seq_);
    return norm(sum, "embeddings.LayerNorm");
  }

  // [batch, 1, 1, seq], true for the keys that are not padding; one mask serves all layers.
  Value keep_mask() {
    const Value keep = cast(ids("attention_mask"), DType::bool_);
    return reshape(keep, {batch_, 1, 1, seq_}).named("keep_mask");
  }

  Value encoder_layer(Value x, Value mask, int64_t layer) {
    const std::string name = "encoder.layer." + std::to_string(layer);
    const int64_t hidden = config_.hidden;
    const Value q = linear(x, name + ".attention.self.query", hidden, hidden);
    const Value k = linear(x, name + ".attention.self.key", hidden, hidden);
    const Value v = linear(x, name + ".attention.self.value", hidden, hidden);
    const AttentionOptions options{.heads = config_.heads, .layout = AttentionLayout::bsd};
    const Value context = attention(q, k, v, options, mask).named(name + ".attention");
    const Value attended = linear(context, name + ".attention.output.dense", hidden, hidden) + x;
    const Value middle = norm(attended, name + ".attention.output.LayerNorm");
    const Value wide_linear = linear(middle, name + ".intermediate.dense", hidden, config_.intermediate);
    const Value wide = apply_function(config_.activation, {wide_linear}).named(name + ".intermediate");
    const Value out = linear(wide, name + ".output.dense", config_.intermediate, hidden) + middle;
    return norm(out, name + ".output.LayerNorm");
  }

  // Of the first token.
  Value pooler(Value x) {
    const Value first = reshape(slice(x, 1, 0, 1), {batch_, config_.hidden});
    return tanh(linear(first, "pooler.dense", config_.hidden, config_.hidden)).named("pooler");
  }

  const BertConfig& config_;
  Dim batch_, seq_;
  Graph graph_;
};

void require_positive(int64_t number, const char* what) {
  if (number <= 0)
    fail(ErrorKind::invalid_argument, "bert: the number of {} is {}; it must be positive", what, number);
}

}  // namespace

Graph bert_encoder(const BertConfig& config, Dim batch, Dim seq) try {
  require_positive(config.hidden, "hidden units");
  require_positive(config.heads, "heads");
  require_positive(config.intermediate, "intermediate units");
  require_positive(config.vocab, "tokens of the vocabulary");
  if (config.layers < 0) fail(ErrorKind::invalid_argument, "bert: the number of layers is {}", config.layers);
  if (config.hidden % config.heads != 0) {
    fail(ErrorKind::invalid_argument, "bert: {} hidden units cannot be split into {} heads", config.hidden,
         config.heads);
  }
  if (seq.is_static() && seq.value() > config.max_positions) {
    fail(ErrorKind::invalid_argument,
         "bert: the sequence has {} tokens, but there are {} position embeddings", seq.value(),
         config.max_positions);
  }
  return BertBuilder(config, std::move(batch), std::move(seq)).build();
} catch (...) {
  throw_as_error("building BERT");
}

}  // namespace rlx::models
