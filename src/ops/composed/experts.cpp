// Layers of experts: which experts a token goes through, and what they make of it.
#include <cmath>

#include "ops/composed/composite.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/scalar.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/transformer.h"

namespace rlx {
namespace {

// act(x gate) * (x up), or act(x up) without a gate, where `product` multiplies with weights.
template <class Product>
Value gated(const Value& gate, const Value& up, std::string_view activation, const Product& product) {
  if (!gate) return apply_function(activation, {product(up)});
  return apply_function(activation, {product(gate)}) * product(up);
}

// Experts of one part and not of another would be left out in silence.
void check_weights(const Shape& x, const ExpertWeights& of) {
  const Shape& up = of.up.shape();
  const Dim& k = x[x.rank() - 1];
  if (up.rank() != 3 || !(up[1] == k)) {
    fail("moe_ffn: `up` is {}; for x {} it must be [experts, {}, hidden]", up.text(), x.text(), k.text());
  }
  if (of.gate && !(of.gate.shape() == up))
    fail("moe_ffn: `gate` is {}, but `up` is {}; they must have the same shape", of.gate.shape().text(),
         up.text());
  if (const Shape down{up[0], up[2], k}; !(of.down.shape() == down)) {
    fail("moe_ffn: `down` is {}; with `up` {} it must be {}", of.down.shape().text(), up.text(), down.text());
  }
}

}  // namespace

// In f32, whatever the type of the logits, and rounded at the end.
ExpertChoice moe_route(Value logits, const ExpertRouting& routing, Value bias) {
  if (routing.experts_per_token < 1)
    fail("moe_route: {} experts for each token; there must be at least 1", routing.experts_per_token);
  const Shape& s = logits.shape();
  if (s.rank() < 1) fail("moe_route: the logits are a scalar; they must be [.., experts]");
  if (const Dim& all = s[s.rank() - 1]; all.is_static() && routing.experts_per_token > all.value()) {
    fail("moe_route: experts_per_token is {}, and the logits {} are of {} experts", routing.experts_per_token,
         s.text(), all.text());
  }
  const Value wide = cast(logits, DType::f32);
  const bool is_softmax = routing.score == ExpertScore::softmax;
  const Value scores = is_softmax ? softmax(wide) : sigmoid(wide);
  const Value choice = bias ? scores + cast(bias, DType::f32) : scores;
  const auto [values, experts] = topk(choice, routing.experts_per_token);
  Value weights = bias ? gather_elements(scores, experts, -1) : values;
  if (routing.normalize) weights = weights / sum(weights, {-1}, true);
  if (routing.scale != 1) weights = weights * routing.scale;
  return {cast(weights, value_dtype(logits.dtype())), experts};
}

Value moe_ffn(Value x, Value weights, Value experts, const ExpertWeights& of, std::string_view activation) {
  if (!of.up || !of.down) fail("moe_ffn: the experts need the weights `up` and `down`");
  if (static_cast<bool>(of.shared_up) != static_cast<bool>(of.shared_down))
    fail("moe_ffn: shared experts need both `shared_up` and `shared_down`");
  if (!(weights.shape() == experts.shape())) {
    fail("moe_ffn: the weights {} and the experts {} of the tokens must have the same shape",
         weights.shape().text(), experts.shape().text());
  }
  // A row for each token and expert: [.., experts_per_token, k].
  Shape rows = x.shape();
  Shape one = rows;
  const int64_t axis = rows.rank() - 1;
  if (axis < 0 || experts.shape().rank() != axis + 1) {
    fail("moe_ffn: the experts {} must have the axes of x {} without the last, and one for a token's experts",
         experts.shape().text(), x.shape().text());
  }
  check_weights(x.shape(), of);
  if (const ScalarFn* fn = find_scalar(activation); !fn || fn->arity != 1) {
    fail("moe_ffn: the activation '{}' is no element-wise function of one operand (`rlx ops` lists them)",
         activation);
  }
  rows.insert(axis, experts.shape()[axis]);
  one.insert(axis, 1);
  const Value each = expand(reshape(x, one), rows);
  const Value hidden =
      gated(of.gate, of.up, activation, [&](const Value& w) { return grouped_matmul(each, w, experts); });
  const Value made = grouped_matmul(hidden, of.down, experts);
  Shape column = weights.shape();
  column.push_back(1);
  Value y = sum(made * reshape(weights, column), {axis});
  if (!of.shared_up) return y;
  const Value shared =
      gated(of.shared_gate, of.shared_up, activation, [&](const Value& w) { return matmul(x, w); });
  return y + matmul(shared, of.shared_down);
}

Value decode_experts(Value w) {
  if (w.shape().rank() != 3)
    fail("decode_experts: the weights {} must be [experts, n, k], of rank 3", w.shape().text());
  return transpose(w, {0, 2, 1});
}

namespace {

using Inputs = std::vector<Value>;

struct MoeRoute final : Composite<MoeRoute> {
  static constexpr auto kName = "moe_route";
  static constexpr int64_t kLeast = 1, kMost = 2;
  ExpertRouting routing;
  void visit_attributes(AttributeVisitor& v) override {
    v("experts_per_token", routing.experts_per_token, 2);
    v.choice("score", routing.score, {"softmax", "sigmoid"}, std::optional(ExpertScore::softmax));
    v("normalize", routing.normalize, true);
    v("scale", routing.scale, 1);
  }
  Inputs make(Graph&, const Inputs& in) const {
    const auto [weights, experts] = moe_route(in[0], routing, in[1]);
    return {weights, experts};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& s = inputs[0].shape;
    return {.ulps = 32, .terms = static_cast<double>(s[s.rank() - 1].value()), .scale = 1};
  }
};

struct MoeFfn final : Composite<MoeFfn> {
  static constexpr auto kName = "moe_ffn";
  static constexpr int64_t kLeast = 6, kMost = 9;
  std::string activation = "silu";
  void visit_attributes(AttributeVisitor& v) override { v("activation", activation, "silu"); }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == 2 ? values_between(0, inputs[4].shape[0] - 1) : std::nullopt;
  }
  Inputs make(Graph&, const Inputs& in) const {
    const ExpertWeights of{.gate = in[3],
                           .up = in[4],
                           .down = in[5],
                           .shared_gate = in[6],
                           .shared_up = in[7],
                           .shared_down = in[8]};
    return {moe_ffn(in[0], in[1], in[2], of, activation)};
  }
  // Values lie in [-2, 2]: products of k of them grow to 2 sqrt(k), those of two such to 4 k, and sums of f
  // of these with weights to 8 k sqrt(f) for each expert. Each node rounds to the type.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& up = inputs[4].shape;
    const auto k = std::max(1.0, static_cast<double>(up[1].value()));
    const auto f = std::max(1.0, static_cast<double>(up[2].value()));
    const DType type = inputs[0].dtype;
    return {.ulps = 16 * (type == DType::f32 ? 1 : epsilon(type) / epsilon(DType::f32)),
            .terms = k + f,
            .scale = 8 * k * std::sqrt(f)};
  }
};

struct DecodeExperts final : Composite<DecodeExperts> {
  static constexpr auto kName = "decode_experts";
  static constexpr int64_t kLeast = 1, kMost = 1;
  Inputs make(Graph&, const Inputs& in) const { return {decode_experts(in[0])}; }
};

}  // namespace

namespace ops {
void register_experts(OpTable& table) {
  table.add<MoeRoute>(
      {.formula = "the weights and indices of the experts with the highest scores for each token",
       .operands = "logits: [.., experts], of the router\n"
                   "bias? (float): [experts], added to the scores for the choice alone",
       .attributes = "experts_per_token: how many experts a token goes through\n"
                     "score: what logits become\n"
                     "normalize: the weights of a token's experts add up to 1\n"
                     "scale: what the weights are then multiplied by",
       .outputs = "weights: [.., experts_per_token], the scores of the chosen experts\n"
                  "experts (i64): [.., experts_per_token], their indices",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"moe_route(T[3,5,8]) {experts_per_token=3}",
                   "moe_route(T[7,6], f32[6]) {score=\"sigmoid\", normalize=false, scale=2.5}"}});
  table.add<MoeFfn>(
      {.formula =
           "sum over a token's experts of weight * (act(x gate) * (x up)) down, plus that of shared experts",
       .operands = "x: tokens [.., k]\n"
                   "weights: [.., experts_per_token], what the results are multiplied by\n"
                   "experts (i32 u32 i64): as weights; an expert that does not exist adds nothing\n"
                   "gate?: [experts, k, hidden]; if left out, the activation is applied to x up\n"
                   "up: [experts, k, hidden]\n"
                   "down: [experts, hidden, k]\n"
                   "shared_gate?: [k, hidden], as gate, for all tokens\n"
                   "shared_up?: [k, hidden], for all tokens; no shared experts if left out\n"
                   "shared_down?: [hidden, k], needed with shared_up",
       .attributes = "activation: the name of an element-wise function of one operand",
       .outputs = "y: as x",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {
           "moe_ffn(T[2,3,17], T[2,3,2] in 0..1, i64[2,3,2] in -1..4, T[4,17,9], T[4,17,9], T[4,9,17], "
           "T[17,5], T[17,5], T[5,17])",
           "moe_ffn(T[5,8], T[5,2] in 0..1, i32[5,2] in 0..2, none, T[3,8,4], T[3,4,8]) "
           "{activation=\"relu\"}"}});
  table.add<DecodeExperts>({.formula = "y[e, k, n] = w[e, n, k], decoded",
                            .operands = "w: [experts, n, k], of any encoding",
                            .outputs = "y: [experts, k, n]",
                            .types = "f32 f16 bf16",
                            .variants = {"expanded"},
                            .samples = {"decode_experts(T[3,5,7])"}});
}
}  // namespace ops

}  // namespace rlx
