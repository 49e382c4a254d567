// Finds attention written out: softmax(scale * (q k^T) + mask) v over [batch, heads, sequence, head].
#include <algorithm>

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/transpose.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

struct Match {
  ValueId q, k, v;
  std::optional<ValueId> mask;
  double scale = 1;
};

class Matcher {
 public:
  Matcher(const Graph& graph, const std::map<ValueId, std::vector<int32_t>>& uses)
      : graph_(graph), uses_(uses) {}

  std::optional<Match> match(int32_t id) const {
    const Node& out = graph_.node(id);
    if (!plain_matmul(out) || graph_.type(out.inputs[0]).shape.rank() != 4) return std::nullopt;
    if (graph_.type(out.inputs[1]).shape.rank() != 4) return std::nullopt;
    Match m;
    m.v = out.inputs[1];
    const Node& softmax = graph_.producer(out.inputs[0]);
    const auto* op = op_cast<Softmax>(*softmax.op);
    if (!op || !only_use(out.inputs[0]) || (op->axis != -1 && op->axis != 3)) return std::nullopt;
    ValueId score = softmax.inputs[0];
    if (!take_mask(score, m)) return std::nullopt;
    if (!take_scale(score, m)) return std::nullopt;
    const Node& product = graph_.producer(score);
    if (!plain_matmul(product) || !only_use(score)) return std::nullopt;
    m.q = product.inputs[0];
    const Node& transposed = graph_.producer(product.inputs[1]);
    const auto* t = op_cast<Transpose>(*transposed.op);
    if (t && t->order(4) == std::vector<int64_t>{0, 1, 3, 2}) {
      m.k = transposed.inputs[0];
    } else {
      m.k = product.inputs[1];
      k_is_transposed_ = true;
    }
    const Shape& q = graph_.type(m.q).shape;
    if (q.rank() != 4 || !q[1].is_static()) return std::nullopt;
    // Plain matmuls broadcast heads; attention wants as many on both sides.
    const Shape& v = graph_.type(m.v).shape;
    if (!(q[0] == v[0]) || !(q[1] == v[1])) return std::nullopt;
    return m;
  }

  bool k_is_transposed() const { return k_is_transposed_; }

 private:
  static bool plain_matmul(const Node& n) {
    const auto* op = op_cast<MatMul>(*n.op);
    return op && op->epilogue.empty();
  }
  bool only_use(ValueId v) const { return uses_.at(v).size() == 1; }

  static bool is(const Node& n, std::string_view function) {
    const auto* op = op_cast<Elementwise>(*n.op);
    return op && op->fn->name == function;
  }

  // score + mask, where(mask, score, -large)
  bool take_mask(ValueId& score, Match& m) const {
    const Node& n = graph_.producer(score);
    if (is(n, "where") && only_use(score)) {
      const auto masked = scalar_constant(graph_, n.inputs[2]);
      if (!masked || *masked > -1e4) return true;
      m.mask = n.inputs[0];
      score = n.inputs[1];
      return true;
    }
    if (!is(n, "add") || !only_use(score)) return true;
    // The product's side is the one that a matmul or its scaling makes; the other must broadcast to it.
    for (size_t i = 0; i < 2; ++i) {
      const Node& side = graph_.producer(n.inputs[i]);
      if (!plain_matmul(side) && !is(side, "mul") && !is(side, "div")) continue;
      if (!(graph_.type(n.inputs[i]).shape == n.outputs[0].shape)) continue;
      m.mask = n.inputs[1 - i];
      score = n.inputs[i];
      return graph_.type(*m.mask).shape.rank() >= 2;
    }
    return true;
  }

  bool take_scale(ValueId& score, Match& m) const {
    const Node& n = graph_.producer(score);
    if (!(is(n, "mul") || is(n, "div")) || !only_use(score)) return true;
    const auto number = scalar_constant(graph_, n.inputs[1]);
    if (!number || *number == 0) return true;
    m.scale = is(n, "mul") ? *number : 1 / *number;
    score = n.inputs[0];
    return true;
  }

  const Graph& graph_;
  const std::map<ValueId, std::vector<int32_t>>& uses_;
  mutable bool k_is_transposed_ = false;
};

}  // namespace

Graph fuse_attention(const Graph& graph) {
  const auto users = uses(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Matcher matcher(graph, users);
    const std::optional<Match> m = matcher.match(id);
    if (!m) {
      rewriter.copy(id);
      continue;
    }
    ValueId k = rewriter.mapped(m->k);
    if (matcher.k_is_transposed()) {
      auto back = std::make_shared<Transpose>();
      back->perm = {0, 1, 3, 2};
      k = rewriter.target().add(back, {k}, graph.node(id).name + ".keys");
    }
    auto op = std::make_shared<Attention>();
    op->heads = graph.type(m->q).shape[1].value();
    op->layout = AttentionLayout::bhsd;
    op->scale = m->scale;
    std::vector<ValueId> inputs = {rewriter.mapped(m->q), k, rewriter.mapped(m->v)};
    if (m->mask) inputs.push_back(rewriter.mapped(*m->mask));
    rewriter.replace(id, op, std::move(inputs));
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
