// Layers of transformers as single ops, made of those that the passes fuse.
#include <cmath>

#include "ops/composed/composite.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/transformer.h"

namespace rlx {
namespace {

Value linear(const Value& x, const Value& w, const Value& bias) {
  const Value y = matmul(x, w);
  return bias ? y + bias : y;
}

}  // namespace

Value swiglu(Value x, bool gate_first) {
  const int64_t last = x.shape().rank() - 1;
  const std::optional<Dim> half = last < 0 ? std::nullopt : Dim::exact_div(x.shape()[last], Dim(2));
  if (!half) fail("swiglu: the last axis of {} has no two halves", x.shape().text());
  const Value first = slice(x, last, 0, *half);
  const Value second = slice(x, last, *half, *half);
  return gate_first ? second * silu(first) : first * silu(second);
}

Value attention_block(Value x, const AttentionBlockWeights& w, const AttentionBlockOptions& options) {
  if (options.heads < 1)
    fail("attention_block: there are {} heads; there must be at least one", options.heads);
  if (x.shape().rank() != 3)
    fail("attention_block: the input {} must be [batch, sequence, hidden]", x.shape().text());
  const Value qkv = linear(x, w.qkv, w.qkv_bias);
  const Dim& width = qkv.shape()[2];
  const std::optional<Dim> third = Dim::exact_div(width, Dim(3 * options.heads));
  if (!third) {
    fail("attention_block: {} columns are not queries, keys and values of {} heads", width.text(),
         options.heads);
  }
  const Dim part = *third * Dim(options.heads);
  const auto piece = [&](int64_t i) {
    const Value y = slice(qkv, 2, part * Dim(i), part);
    return i < 2 && w.cos ? rope(y, w.cos, w.sin, third->value()) : y;
  };
  const AttentionOptions heads{.heads = options.heads,
                               .layout = AttentionLayout::bsd,
                               .mask = options.causal ? MaskKind::causal : MaskKind::none};
  return linear(attention(piece(0), piece(1), piece(2), heads, w.mask), w.out, w.out_bias);
}

Value transformer_layer(Value x, const TransformerLayerWeights& w, const TransformerLayerOptions& options) {
  const AttentionBlockWeights own{
      .qkv = w.qkv, .out = w.out, .mask = w.mask, .qkv_bias = w.qkv_bias, .out_bias = w.out_bias};
  const Value seen = attention_block(x, own, {.heads = options.heads});
  const Value h = layer_norm(seen + x, w.gamma1, w.beta1, options.eps1);
  const Value inner = apply_function(options.activation, {linear(h, w.w1, w.bias1)});
  return layer_norm(linear(inner, w.w2, w.bias2) + h, w.gamma2, w.beta2, options.eps2);
}

namespace {

using Inputs = std::vector<Value>;

double size_at(const TensorType& t, int64_t axis) {
  return std::max(1.0, static_cast<double>(t.shape[axis].value()));
}
// Nodes of 16-bit floats round to their type.
double roundings(double count, DType type) {
  return type == DType::f32 ? count : count * epsilon(type) / epsilon(DType::f32);
}

struct SwiGlu final : Composite<SwiGlu> {
  static constexpr auto kName = "swiglu";
  static constexpr int64_t kLeast = 1, kMost = 1;
  bool gate_first = false;
  void visit_attributes(AttributeVisitor& v) override { v("gate_first", gate_first, false); }
  Inputs make(Graph&, const Inputs& in) const { return {swiglu(in[0], gate_first)}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return {.ulps = 8 + roundings(1, inputs[0].dtype), .terms = 0, .scale = 4};
  }
};

struct AttentionBlock final : Composite<AttentionBlock> {
  static constexpr auto kName = "attention_block";
  static constexpr int64_t kLeast = 3, kMost = 8;
  AttentionBlockOptions options;
  void visit_attributes(AttributeVisitor& v) override {
    v("heads", options.heads);
    v("causal", options.causal, false);
  }
  Inputs make(Graph&, const Inputs& in) const {
    return {attention_block(in[0],
                            {.qkv = in[1],
                             .out = in[2],
                             .mask = in[3],
                             .qkv_bias = in[4],
                             .out_bias = in[5],
                             .cos = in[6],
                             .sin = in[7]},
                            options)};
  }
  // Sums of k products of numbers up to 2 are about 2 sqrt(k) large, and scores sums of products of such;
  // their errors move the weights of values.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const double k = size_at(inputs[1], 0);
    const double inner = size_at(inputs[2], 0);
    return {
        .ulps = roundings(16 * k, inputs[0].dtype), .terms = k + inner, .scale = 4 * std::sqrt(k * inner)};
  }
};

struct TransformerLayer final : Composite<TransformerLayer> {
  static constexpr auto kName = "transformer_layer";
  static constexpr int64_t kLeast = 12, kMost = 14;
  TransformerLayerOptions options;
  void visit_attributes(AttributeVisitor& v) override {
    v("heads", options.heads);
    v("eps1", options.eps1, 1e-5);
    v("eps2", options.eps2, 1e-5);
    v("activation", options.activation, "gelu");
  }
  Inputs make(Graph&, const Inputs& in) const {
    return {transformer_layer(in[0],
                              {.qkv = in[1],
                               .qkv_bias = in[2],
                               .out = in[3],
                               .out_bias = in[4],
                               .gamma1 = in[5],
                               .beta1 = in[6],
                               .w1 = in[7],
                               .bias1 = in[8],
                               .w2 = in[9],
                               .bias2 = in[10],
                               .gamma2 = in[11],
                               .beta2 = in[12],
                               .mask = in[13]},
                              options)};
  }
  // As above, brought to the size of gamma by norms, which keep relative errors.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const double k = size_at(inputs[1], 0);
    return {.ulps = roundings(64 * k, inputs[0].dtype), .terms = size_at(inputs[9], 0) + k, .scale = 8};
  }
};

}  // namespace

namespace ops {
void register_transformer(OpTable& table) {
  const std::string floats = "f32 f16 bf16";
  table.add<SwiGlu>({.formula = "up * silu(gate) for the halves of the last axis: up first, or gate first",
                     .operands = "x: [.., 2 n], two halves side by side",
                     .attributes = "gate_first: the gate is the first half, instead of the second",
                     .outputs = "y: [.., n]",
                     .types = floats,
                     .variants = {"expanded"},
                     .samples = {"swiglu(T[3,34])", "swiglu(T[2,5,6]) {gate_first=true}", "swiglu(T[0,4])"}});
  table.add<AttentionBlock>(
      {.formula =
           "attention(x qkv + qkv_bias) out + out_bias, with queries and keys rotated if there are tables",
       .operands = "x: [batch, sequence, hidden]\n"
                   "qkv: weights of queries, keys and values, [hidden, 3 heads * head]\n"
                   "out: weights of the result, [heads * head, hidden]\n"
                   "mask? (T f32 bool): broadcast to [batch, heads, queries, keys]: true keeps a score, a "
                   "float is added to it\n"
                   "qkv_bias?: [3 heads * head]; 0 if left out\n"
                   "out_bias?: [hidden]; 0 if left out\n"
                   "cos? (float): [positions, head / 2], cosines for rope; no rotation if left out\n"
                   "sin? (float): likewise, sines",
       .attributes = "heads: how many heads there are\n"
                     "causal: queries see no keys after their own",
       .outputs = "y: [batch, sequence, hidden]",
       .types = floats,
       .variants = {"expanded"},
       .samples = {"attention_block(T[2,5,8], T[8,36], T[12,8], bool[2,1,1,5], T[36], T[8], T[5,2], T[5,2]) "
                   "{heads=3}",
                   "attention_block(T[2,5,8], T[8,24], T[8,8]) {heads=2, causal=true}"}});
  table.add<TransformerLayer>(
      {.formula = "h = layer_norm(attention_block(x) + x); layer_norm(act(h w1 + bias1) w2 + bias2 + h)",
       .operands = "x: [batch, sequence, hidden]\n"
                   "qkv: weights of queries, keys and values, [hidden, 3 heads * head]\n"
                   "qkv_bias?: [3 heads * head]; 0 if left out\n"
                   "out: weights of the result of attention, [heads * head, hidden]\n"
                   "out_bias?: [hidden]; 0 if left out\n"
                   "gamma1 (float): [hidden], factors of the first norm\n"
                   "beta1? (float): [hidden], added after the first norm; 0 if left out\n"
                   "w1: [hidden, inner], weights before the activation\n"
                   "bias1?: [inner]; 0 if left out\n"
                   "w2: [inner, hidden], weights after the activation\n"
                   "bias2?: [hidden]; 0 if left out\n"
                   "gamma2 (float): [hidden], factors of the second norm\n"
                   "beta2? (float): [hidden], added after the second norm; 0 if left out\n"
                   "mask? (T f32 bool): broadcast to [batch, heads, queries, keys]: true keeps a score, a "
                   "float is added to it",
       .attributes = "heads: how many heads there are\n"
                     "eps1: added to the variance in the first norm\n"
                     "eps2: added to the variance in the second norm\n"
                     "activation: the name of an element-wise function",
       .outputs = "y: [batch, sequence, hidden]",
       .types = floats,
       .variants = {"expanded"},
       .samples = {
           "transformer_layer(T[2,5,8], T[8,24], T[24], T[8,8], T[8], T[8], T[8], T[8,16], T[16], T[16,8], "
           "T[8], T[8], T[8], bool[2,1,1,5]) {heads=2}",
           "transformer_layer(T[2,5,8], T[8,24], none, T[8,8], none, T[8], none, T[8,16], none, T[16,8], "
           "none, T[8]) {heads=2, eps1=1e-6, activation=\"relu\"}"}});
}
}  // namespace ops

}  // namespace rlx
