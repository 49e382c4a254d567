// MoE and QMoE of com.microsoft: layers of experts, of which each token goes through a few. The experts are
// chosen on the device; the weights of QMoE stay packed.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "import/onnx/quantized.h"
#include "import/onnx/rules.h"
#include "ops/elementwise/elementwise.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/order.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/transformer.h"

namespace rlx::onnx {
namespace {

// Where a node has one of its up to three projections: numbers of inputs, -1 where the op has none.
struct Projection {
  std::string_view name;
  int64_t weight, bias;
  int64_t scale = -1, zero = -1;
};
using Projections = std::array<Projection, 3>;
constexpr Projections kPlain = {{{"fc1", 2, 3}, {"fc2", 4, 5}, {"fc3", 6, 7}}};
constexpr Projections kQuantised = {{{"fc1", 2, 4, 3, 11}, {"fc2", 5, 7, 6, 12}, {"fc3", 8, 10, 9, 13}}};

// The experts of each token and what they count for: [tokens, k].
struct Routes {
  Value weights, experts;
  Dim count;  // of all experts
};

void expect_shape(const Call& c, int64_t input, std::string_view name, const Shape& wanted) {
  if (c.shape(input) == wanted) return;
  fail("its {} {} must be {}", name, c.shape(input).text(), wanted.text());
}

void expect_shape(const Call& c, int64_t input, const Projection& p, std::string_view part,
                  const Shape& wanted) {
  expect_shape(c, input, formatted("{}_{}", p.name, part), wanted);
}

// --- Routes ---

// The node may have the numbers by which experts are weighted apart from those by which they are chosen.
Routes weighted_apart(Call& c, int64_t k, int64_t weights) {
  expect_shape(c, weights, "router_weights", c.shape(1));
  const Value experts = topk(c.in(1), k).indices;
  Value taken = gather_elements(as_f32(c.in(weights)), experts, -1);
  if (c.flag("normalize_routing_weights", false)) {
    const Value total = sum(taken, {-1}, true);
    taken = taken / where(equal(total, 0), 1, total);
  }
  return {.weights = taken, .experts = experts, .count = {}};
}

Routes routes_of(Call& c, const Dim& tokens, bool quantised) {
  const Shape logits = c.shape(1);
  if (logits.rank() != 2 || !(logits[0] == tokens) || !logits[1].is_static())
    fail("its router_probs {} must be [{}, experts]", logits.text(), tokens.text());
  const int64_t k = c.integer("k", 1);
  if (k < 1 || k > logits[1].value())
    fail("it takes {} experts for each token, and there are {}", k, logits[1].text());
  if (c.flag("use_sparse_mixer", false)) c.refuse(Refusal::other, "use_sparse_mixer=1 is not supported");
  constexpr int64_t kRouterWeights = 14;
  Routes out;
  if (quantised && c.has(kRouterWeights)) {
    out = weighted_apart(c, k, kRouterWeights);
  } else {
    const bool normalize = c.flag("normalize_routing_weights", false);
    const auto [weights, experts] =
        moe_route(as_f32(c.in(1)), {.experts_per_token = k, .normalize = normalize});
    out = {.weights = weights, .experts = experts, .count = {}};
  }
  out.count = logits[1];
  return out;
}

// --- Projections ---

// Bytes hold the zero points of neighbouring blocks or, where a column has a single one, of columns.
Value zero_points(Call& c, const Projection& p, Shape wanted, int64_t bits) {
  if (!c.has(p.zero)) return {};
  if (c.type(p.zero) != ElementType::uint8) fail("its {}_zero_points must be uint8", p.name);
  if (c.rank(p.zero) == 2 && wanted.rank() == 3 && wanted[2].is(1)) wanted.erase(2);
  const int64_t last = wanted.rank() - 1;
  Shape bytes = wanted;
  bytes[last] = ceil_div(checked_mul(wanted[last].value(), bits), 8);
  expect_shape(c, p.zero, p, "zero_points", bytes);
  return slice(unpacked(c.in(p.zero), bits), last, 0, wanted[last]);
}

Value packed_product(Call& c, const Projection& p, Value x, const Routes& routes, int64_t columns) {
  const int64_t k = x.shape()[2].value();
  const int64_t bits = c.integer("expert_weight_bits", 4);
  const int64_t block = std::clamp<int64_t>(c.integer("block_size", 0), 0, k);  // 0: a scale for each column
  if (c.type(p.weight) != ElementType::uint8) fail("its {}_experts_weights must be uint8", p.name);
  expect_shape(c, p.weight, p, "experts_weights", {routes.count, columns, ceil_div(checked_mul(k, bits), 8)});
  if (!c.has(p.scale)) fail("it has no {}_scales", p.name);
  Shape scale = {routes.count, columns};
  if (block > 0 || c.rank(p.scale) == 3) scale.push_back(block > 0 ? ceil_div(k, block) : 1);
  expect_shape(c, p.scale, p, "scales", scale);
  PackedWeight w{.codes = c.in(p.weight), .scale = c.in(p.scale)};
  w.zero_point = zero_points(c, p, scale, bits);
  w.scheme = bits == 2 ? WeightScheme::uint2 : bits == 4 ? WeightScheme::uint4 : WeightScheme::uint8;
  w.block = block;
  w.zero = static_cast<double>(1 << (bits - 1));
  return dequant_grouped_matmul(as_f32(x), w, routes.experts);
}

// A file has weights as [experts, columns, k].
Value plain_product(Call& c, const Projection& p, Value x, const Routes& routes, int64_t columns) {
  expect_shape(c, p.weight, p, "experts_weights", {routes.count, columns, x.shape()[2]});
  const Value w = c.in(p.weight);
  return grouped_matmul(x.dtype() == w.dtype() ? x : cast(x, w.dtype()), transpose(w, {0, 2, 1}),
                        routes.experts);
}

// Of x [tokens, k, inputs], in f32: between two products of halves nothing else is rounded, as in ONNX
// Runtime.
Value projected(Call& c, const Projection& p, Value x, const Routes& routes, int64_t columns) {
  Value y = as_f32(p.scale >= 0 ? packed_product(c, p, x, routes, columns)
                                : plain_product(c, p, x, routes, columns));
  if (!c.has(p.bias)) return y;
  expect_shape(c, p.bias, p, "experts_bias", {routes.count, columns});
  return y + as_f32(gather(c.in(p.bias), routes.experts, 0));
}

// --- Activations ---

// Of a gate and what it lets through.
Value swiglu(const Call& c, Value gate, Value linear) {
  if (c.has_attribute("swiglu_limit")) {
    const double limit = c.real("swiglu_limit");
    if (!(limit >= 0)) fail("its swiglu_limit is {}", limit);
    if (std::isfinite(limit)) {
      gate = minimum(gate, limit);
      linear = clamp(linear, -limit, limit);
    }
  }
  const double alpha = c.real("activation_alpha", 1);
  const double beta = c.real("activation_beta", 0);
  const Value open = gate * sigmoid(alpha == 1 ? gate : gate * alpha);
  return open * (beta == 0 ? linear : linear + beta);
}

Value activated(const Call& c, std::string_view activation, Value x) {
  if (activation == "relu") return relu(x);
  if (activation == "gelu") return apply_function("gelu_approx", {x});
  if (activation == "silu") return apply_function("silu", {x});
  if (activation == "identity") return x;
  c.refuse(Refusal::other, "activation_type='{}' is not supported", activation);
}

// How wide the experts are inside: what fc1 makes, of which a fused one has `parts`.
int64_t inner_size(const Call& c, const Projection& fc1, int64_t parts) {
  const Shape w = c.shape(fc1.weight);
  if (w.rank() != 3 || !w[1].is_static() || w[1].value() % parts != 0)
    fail("its fc1_experts_weights {} must be [experts, {}, hidden]", w.text(),
         parts == 2 ? "2 inner" : "inner");
  return w[1].value() / parts;
}

// Gates and what they let through are columns of fc1 in turn, or its two halves.
Value hidden_of_fused(Call& c, const Projection& fc1, Value x, const Routes& routes, bool in_turn) {
  const int64_t size = inner_size(c, fc1, 2);
  const Value both = projected(c, fc1, x, routes, 2 * size);
  if (in_turn) return swiglu(c, slice(both, 2, 0, size, 2), slice(both, 2, 1, size, 2));
  return swiglu(c, slice(both, 2, 0, size), slice(both, 2, size, size));
}

Value hidden_of(Call& c, const Projections& at, Value x, const Routes& routes) {
  c.ignores("swiglu_fusion swiglu_limit activation_alpha activation_beta");  // of swiglu
  const std::string activation = c.text("activation_type", "relu");
  const bool is_swiglu = activation == "swiglu";
  const int64_t fusion = is_swiglu ? c.integer("swiglu_fusion", 0) : 0;
  if (fusion < 0 || fusion > 2) fail("its swiglu_fusion is {}; it must be 0, 1 or 2", fusion);
  const Projection& fc3 = at[2];
  if (fusion > 0) {
    if (c.has(fc3.weight)) fail("it has fc3_experts_weights, and swiglu_fusion={}", fusion);
    return hidden_of_fused(c, at[0], x, routes, fusion == 1);
  }
  const int64_t size = inner_size(c, at[0], 1);
  const Value gate = projected(c, at[0], x, routes, size);
  if (!c.has(fc3.weight)) {
    if (is_swiglu) fail("swiglu needs fc3_experts_weights, or swiglu_fusion=1 or 2");
    return activated(c, activation, gate);
  }
  if (!is_swiglu && activation != "silu" && activation != "gelu")
    c.refuse(Refusal::other, "fc3_experts_weights with activation_type='{}' is not supported", activation);
  const Value linear = projected(c, fc3, x, routes, size);
  return is_swiglu ? swiglu(c, gate, linear) : activated(c, activation, gate) * linear;
}

// --- The layer ---

void layer(Call& c, const Projections& at) {
  const Shape shape = c.shape(0);
  const int64_t last = shape.rank() - 1;
  if ((last != 1 && last != 2) || !shape[last].is_static())
    fail("its input {} must be [tokens, hidden] or [batch, sequence, hidden]", shape.text());
  const Dim tokens = last == 1 ? shape[0] : shape[0] * shape[1];
  const int64_t hidden = shape[last].value();
  const Routes routes = routes_of(c, tokens, at[0].scale >= 0);
  // A row for each token and each of its experts.
  const Value each =
      expand(reshape(c.in(0), {tokens, 1, hidden}), {tokens, routes.experts.shape()[1], hidden});
  const Value made = projected(c, at[1], hidden_of(c, at, each, routes), routes, hidden);
  const Value weights = reshape(routes.weights, {tokens, routes.experts.shape()[1], 1});
  const Value y = sum(made * weights, {1});
  c.out(reshape(cast(y, c.in(0).dtype()), shape));
}

void moe_rule(Call& c) {
  c.expect_inputs(5, 8);
  layer(c, kPlain);
}

void qmoe_rule(Call& c) {
  c.expect_inputs(7, 21);
  const std::string type = c.text("quant_type", "int");
  if (type != "int") c.refuse(Refusal::other, "quant_type='{}' is not supported, only 'int'", type);
  if (c.integer("weights_prepacked", -1) == 1)
    c.refuse(Refusal::other, "weights_prepacked=1 is not supported");
  const int64_t bits = c.integer("expert_weight_bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    c.refuse(Refusal::other, "expert_weight_bits={} is not supported, only 2, 4 and 8", bits);
  constexpr int64_t kFirstOfFloats = 15, kInputs = 21;  // scales of other quant_types
  for (int64_t i = kFirstOfFloats; i < kInputs; ++i)
    if (c.has(i)) c.refuse(Refusal::other, "input {} is not supported for quant_type='int'", i);
  layer(c, kQuantised);
}

}  // namespace

namespace rules {
void register_moe(RuleTable& table) {
  table.add(kMicrosoft, "MoE", moe_rule);
  table.add(kMicrosoft, "QMoE", qmoe_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
