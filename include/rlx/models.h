// Graphs of known models, with the weight names that their published files have.
#pragma once

#include <cstdint>
#include <string>

#include "rlx/export.h"
#include "rlx/graph.h"
#include "rlx/tensor.h"

RLX_EXPORT_BEGIN
namespace rlx::models {

// The defaults are BERT-base.
struct BertConfig {
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t intermediate = 3072;
  int64_t vocab = 30522;
  int64_t max_positions = 512;
  int64_t token_types = 2;
  double eps = 1e-12;
  std::string activation = "gelu";  // an element-wise function
  bool pooler = false;              // also the output pooler_output
  DType dtype = DType::f32;         // of weights and activations
};

// BERT's encoder as Hugging Face transformers has it. Inputs: input_ids, token_type_ids and attention_mask
// (0: padding), all i64[batch, seq]. Output: last_hidden_state [batch, seq, hidden]. Params have the names of
// BertModel's weights, such as encoder.layer.0.attention.self.query.weight, with its [out, in] layout.
Graph bert_encoder(const BertConfig& config, Dim batch = "batch", Dim seq = "seq");

struct DecoderConfig {
  int64_t layers = 12;
  int64_t hidden = 64;
  int64_t heads = 4;
  int64_t kv_heads = 4;
  int64_t intermediate = 128;
  int64_t vocab = 256;
  int64_t capacity = 256;  // tokens
  double eps = 1e-5;
  double rope_theta = 10000;
};

// One step of a Llama decoder. Input: input_ids i64[1, 1], the newest token. The symbol `length` counts the
// tokens including it, up to the capacity; keys and values of those before are in states. Output: logits
// [1, 1, vocab]. Params have the names of LlamaForCausalLM's weights, with their [out, in] layout.
Graph decoder_step(const DecoderConfig& config);

// A value for each param of the graph, always the same for a seed: nearly normal with this deviation around
// 0, or around 1 where the name ends in Norm.weight or norm.weight.
NamedTensors random_weights(const Graph& graph, uint64_t seed, double deviation = 0.02);

}  // namespace rlx::models
RLX_EXPORT_END
