// Blocks of transformers: rotary tables, low-rank adapters, experts, and layers. All are made of other ops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/export.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// --- Rotary tables ---

enum class RotaryScaling {
  none,
  linear,  // positions are divided by the factor
  ntk,     // theta grows by factor^(n / (n - 2)), so that the fastest pair stays as it is
  // The same with the factor that `length` needs: factor * length / original_length - (factor - 1).
  dynamic_ntk,
  yarn,  // fast pairs stay, slow ones are divided by the factor, those between are mixed; see also magnitude
  llama3,  // the same by wavelength, between original_length / high_frequency and / low_frequency
};
struct RotaryOptions {
  int64_t rotated = 0;  // elements of a head that are rotated; pairs are half of them
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;
  int64_t original_length = 0;           // that the model was trained with: dynamic_ntk, yarn, llama3
  int64_t length = 0;                    // dynamic_ntk: that of the sequence
  double low_frequency = 1;              // llama3
  double high_frequency = 4;             // llama3
  double beta_fast = 32;                 // yarn: rotations over the original length above which pairs stay
  double beta_slow = 1;                  // yarn: and below which they are divided
  std::optional<double> magnitude = {};  // of cosines and sines; yarn: 0.1 ln(factor) + 1, others 1
};
// The angle by which each pair is rotated from one position to the next.
std::vector<double> rotary_frequencies(const RotaryOptions& options);
struct RotaryTables {
  Tensor cos, sin;  // [positions, rotated / 2], for `rope`
};
// Computed in double. For constants or params of a graph.
RotaryTables rotary_tables(int64_t positions, const RotaryOptions& options, DType dtype = DType::f32);
// x [batch, end_x * end_y * repeat, heads * head_dim] of a picture: position t is the pixel p = t / repeat in
// row p / end_x. Neighbouring pairs of the first half of a head turn with the column, those of the second
// half with the row; pair c of a half by theta^(-4 c / head_dim) for each pixel.
Value axial_rope_2d(Value x, int64_t end_x, int64_t end_y, int64_t head_dim, double theta = 10000,
                    int64_t repeat = 1);

// --- Low-rank adapters ---

// x w + scale (x a) b for x [.., k], w [k, n], a [k, r] and b [r, n].
Value lora_matmul(Value x, Value w, Value a, Value b, double scale = 1);
// The same with an adapter for each row: a [adapters, k, r], b [adapters, r, n] and integers `adapter` [..];
// -1 is none.
Value multi_lora_matmul(Value x, Value w, Value a, Value b, Value adapter, double scale = 1);

// --- Experts ---

enum class ExpertScore {
  softmax,  // over all experts
  sigmoid,
};
struct ExpertRouting {
  int64_t experts_per_token = 2;
  ExpertScore score = ExpertScore::softmax;
  bool normalize =
      true;          // the weights of a token's experts add up to 1; with softmax: a softmax of those alone
  double scale = 1;  // of the weights, after that
};
// Of each token, [.., experts_per_token].
struct ExpertChoice {
  Value weights;  // of the logits' type
  Value experts;  // i64
};
// Those with the highest scores for router logits [.., experts]. A `bias` [experts] is added to the scores
// for the choice alone.
ExpertChoice moe_route(Value logits, const ExpertRouting& routing, Value bias = {});
// The weights of the experts of a feed-forward layer, [experts, k, f], [experts, k, f] and [experts, f, k];
// without a gate the activation is that of `up`. A file's [experts, n, k] is given as transpose(w, {0, 2,
// 1}), which is read where it lies, encoded or not.
struct ExpertWeights {
  Value gate = {};
  Value up = {};
  Value down = {};
  // Experts that every token goes through: [k, f], [k, f] and [f, k]; their result is added.
  Value shared_gate = {};
  Value shared_up = {};
  Value shared_down = {};
};
// sum over a token's experts of weight * (act(x gate) * (x up)) down, for x [.., k]. Tokens are never
// dropped. An expert that does not exist (an index below 0, or past the last) adds nothing.
Value moe_ffn(Value x, Value weights, Value experts, const ExpertWeights& of,
              std::string_view activation = "silu");
// Weights [experts, n, k] of any encoding as floats [experts, k, n].
Value decode_experts(Value w);

// --- Layers ---

// up * silu(gate) for the halves of the last axis: up first, or gate first.
Value swiglu(Value x, bool gate_first = false);

struct AttentionBlockOptions {
  int64_t heads = 0;
  bool causal = false;
};
// Weights [in, out]; biases, a mask as in `attention`, and rotary tables may be left out.
struct AttentionBlockWeights {
  Value qkv;  // [hidden, 3 * heads * head]: queries, keys, values
  Value out;  // [heads * head, hidden]
  Value mask = {};
  Value qkv_bias = {}, out_bias = {};
  Value cos = {}, sin = {};  // [positions, head / 2]
};
// attention(x qkv + bias) out + bias for x [batch, sequence, hidden].
Value attention_block(Value x, const AttentionBlockWeights& w, const AttentionBlockOptions& options);

struct TransformerLayerOptions {
  int64_t heads = 0;
  double eps1 = 1e-5, eps2 = 1e-5;
  std::string activation = "gelu";
};
// Weights [in, out]; biases, betas and the mask may be left out.
struct TransformerLayerWeights {
  Value qkv, qkv_bias = {}, out, out_bias = {};
  Value gamma1, beta1 = {};
  Value w1, bias1 = {}, w2, bias2 = {};
  Value gamma2, beta2 = {};
  Value mask = {};
};
// A layer of an encoder with norms after the sums: h = layer_norm(attention_block(x) + x), then
// layer_norm(act(h w1 + bias1) w2 + bias2 + h).
Value transformer_layer(Value x, const TransformerLayerWeights& w, const TransformerLayerOptions& options);

}  // namespace rlx
RLX_EXPORT_END
