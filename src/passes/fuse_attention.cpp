// Finds attention written out: softmax(mask(scale * (q k^T))) v over [batch, heads, sequence, head], where
// the mask is `+ m` or `where(m, scores, number)`. The nodes in between must have no other readers, and
// nothing may broadcast but the mask: what only looks similar stays as it is.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/states.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/expand.h"
#include "ops/rearrange/reshape.h"
#include "ops/rearrange/transpose.h"
#include "ops/reductions/softmax.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

struct Match {
  ValueId q, k, v;
  bool k_is_transposed = false;  // [batch, heads, head, sequence]
  std::optional<ValueId> mask;
  double masked_score = kExcluded;
  double scale = 1;
  double q_scale = 1;    // q is multiplied with it
  int64_t kv_heads = 0;  // 0: as many as q has
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), uses_(uses(graph)), states_(graph) {}

  std::optional<Match> match(int32_t id) const {
    const Node& out = graph_.node(id);
    if (!plain_matmul(out) || !is_float(out.outputs[0].dtype)) return std::nullopt;
    const Node& softmax = graph_.producer(out.inputs[0]);
    const auto* op = op_cast<Softmax>(*softmax.op);
    if (!op || op->log || !only_use(out.inputs[0]) || (op->axis != -1 && op->axis != 3)) return std::nullopt;
    for (const Masked& scores : unmasked(softmax.inputs[0])) {
      const auto [product, scale] = unscaled(scores.value);
      Match m{.q = {}, .k = {}, .v = out.inputs[1], .mask = scores.mask, .masked_score = scores.masked_score};
      m.scale = scale;
      if (take_product(product, id, m)) return m;
    }
    return std::nullopt;
  }

 private:
  static bool plain_matmul(const Node& n) {
    const ProductOp* const product = as_product(*n.op);
    return product && product->is_plain_matmul();
  }
  bool only_use(ValueId v) const { return uses_.at(v).size() == 1; }
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }

  static bool is(const Node& n, std::string_view function) {
    const auto* op = op_cast<Elementwise>(*n.op);
    return op && op->fn->name == function;
  }

  struct Masked {
    ValueId value;
    std::optional<ValueId> mask = {};
    double masked_score = kExcluded;
  };

  // What the scores may have been before a mask, which must not enlarge their shape. Either side of an add
  // may be the mask; only one of them can turn out to be the product.
  std::vector<Masked> unmasked(ValueId score) const {
    std::vector<Masked> forms = {{score}};
    const Node& n = graph_.producer(score);
    if (!only_use(score)) return forms;
    const auto same_shape = [&](size_t i) { return shape(n.inputs[i]) == shape(score); };
    if (is(n, "where") && same_shape(1)) {
      const auto number = scalar_constant(graph_, n.inputs[2]);
      if (number && (std::isfinite(*number) || *number == kExcluded))
        forms.push_back({n.inputs[1], n.inputs[0], *number});
    }
    if (is(n, "add")) {
      if (same_shape(0)) forms.push_back({n.inputs[0], n.inputs[1]});
      if (same_shape(1)) forms.push_back({n.inputs[1], n.inputs[0]});
    }
    return forms;
  }

  // The value before it was multiplied or divided by a number, and the factor, which must be a normal f32.
  std::pair<ValueId, double> unscaled(ValueId score) const {
    const Node& n = graph_.producer(score);
    const bool mul = is(n, "mul");
    if (!only_use(score) || !(mul || is(n, "div"))) return {score, 1};
    for (const size_t at : {size_t{0}, size_t{1}}) {
      if ((at == 1 && !mul) || !(shape(n.inputs[at]) == shape(score))) continue;
      const auto number = scalar_constant(graph_, n.inputs[1 - at]);
      if (!number) continue;
      const double scale = mul ? *number : 1 / *number;
      if (std::isnormal(static_cast<float>(scale))) return {n.inputs[at], scale};
    }
    return {score, 1};
  }

  // The factor of keys, which are many, goes to the queries, where it makes sums of the same size. (Those of
  // 16-bit floats are rounded after each product.)
  double take_factor(ValueId& v) const {
    if (graph_.type(v).dtype != DType::f32) return 1;
    const auto [inner, factor] = unscaled(v);
    v = inner;
    return factor;
  }

  // `id` is the node at which the inputs will be read.
  bool take_product(ValueId score, int32_t id, Match& m) const {
    const Node& product = graph_.producer(score);
    if (!plain_matmul(product) || !only_use(score)) return false;
    m.q = product.inputs[0];
    m.k = product.inputs[1];
    double k_scale = take_factor(m.k);
    if (!same_heads(shape(m.q), shape(m.k)) || !same_heads(shape(m.q), shape(m.v))) return false;
    const Node& transposed = graph_.producer(m.k);
    const auto* t = op_cast<Transpose>(*transposed.op);
    m.k_is_transposed = !t || t->order(4) != std::vector<int64_t>{0, 1, 3, 2};
    if (!m.k_is_transposed) {
      const bool only = only_use(m.k);
      m.k = transposed.inputs[0];
      if (only) k_scale *= take_factor(m.k);
    }
    if (k_scale != 1) m.q_scale = k_scale * take_factor(m.q);
    share_heads(m);
    // From now on these are read where the last node is, which may be after a write.
    return states_.readable_at(m.q, id) && states_.readable_at(m.k, id) && states_.readable_at(m.v, id) &&
           (!m.mask || states_.readable_at(*m.mask, id));
  }

  // Exporters repeat each head of keys and values for the heads of queries that share it; attention reads it
  // in place.
  void share_heads(Match& m) const {
    const auto k = m.k_is_transposed ? std::nullopt : before_repeat(m.k);
    const auto v = before_repeat(m.v);
    if (!k || !v || !(shape(*k)[1] == shape(*v)[1])) return;
    m.k = *k;
    m.v = *v;
    m.kv_heads = shape(*k)[1].value();
  }

  // [batch, heads, sequence, head] of a value in which each head is there several times, one after the other.
  std::optional<ValueId> before_repeat(ValueId v) const {
    const Node& joined = graph_.producer(v);
    const Node* const repeated = op_cast<Reshape>(*joined.op) ? &graph_.producer(joined.inputs[0]) : nullptr;
    if (!repeated || !op_cast<Expand>(*repeated->op)) return std::nullopt;
    const Node& unsqueezed = graph_.producer(repeated->inputs[0]);
    if (!op_cast<Reshape>(*unsqueezed.op)) return std::nullopt;
    const ValueId inner = unsqueezed.inputs[0];
    const Shape& once = shape(inner);
    const Shape& times = repeated->outputs[0].shape;
    if (once.rank() != 4 || times.rank() != 5 || !once[1].is_static() || once[1].is(0)) return std::nullopt;
    const Shape one = {once[0], once[1], 1, once[2], once[3]};
    const Shape several = {once[0], once[1], times[2], once[2], once[3]};
    const Shape all = {once[0], once[1] * times[2], once[2], once[3]};
    if (!(unsqueezed.outputs[0].shape == one) || !(times == several) || !(shape(v) == all))
      return std::nullopt;
    return inner;
  }

  // Matmuls broadcast batches and heads; attention needs as many on both sides, and a static number of heads.
  static bool same_heads(const Shape& a, const Shape& b) {
    return a.rank() == 4 && b.rank() == 4 && a[0] == b[0] && a[1] == b[1] && a[1].is_static() && !a[1].is(0);
  }

  const Graph& graph_;
  const std::map<ValueId, std::vector<int32_t>> uses_;
  const StateVersions states_;
};

}  // namespace

Graph fuse_attention(const Graph& graph) {
  const Matcher matcher(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const std::optional<Match> m = matcher.match(id);
    if (!m) {
      rewriter.copy(id);
      continue;
    }
    ValueId k = rewriter.mapped(m->k);
    if (m->k_is_transposed) {
      auto back = std::make_shared<Transpose>();
      back->perm = {0, 1, 3, 2};
      k = rewriter.target().add(back, {k}, graph.node(id).name + ".keys");
    }
    auto op = std::make_shared<Attention>();
    op->heads = graph.type(m->q).shape[1].value();
    op->kv_heads = m->kv_heads;
    op->layout = AttentionLayout::bhsd;
    op->scale = m->scale;
    op->masked_score = m->masked_score;
    op->empty_row = EmptyRow::nan;  // what softmax returns
    op->round_scores = graph.node(id).outputs[0].dtype != DType::f32;
    ValueId q = rewriter.mapped(m->q);
    if (m->q_scale != 1) {
      Graph& target = rewriter.target();
      const ValueId factor = target.scalar(DType::f32, m->q_scale).id();
      q = target.add(elementwise("mul"), {q, factor}, graph.node(id).name + ".queries");
    }
    std::vector<ValueId> inputs = {q, k, rewriter.mapped(m->v)};
    if (m->mask) inputs.push_back(rewriter.mapped(*m->mask));
    rewriter.replace(id, op, std::move(inputs));
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
