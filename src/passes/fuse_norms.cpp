// Finds norms over the last axis, or the last few, that are written out, as exporters do: c / sqrt(mean(c^2)
// + eps), perhaps times gamma and plus beta, where c is x - mean(x) (layer norm) or x itself (root mean
// square). Only of f32: the parts of a norm of 16-bit floats would each be rounded. But x may be a cast of
// these, and the result be cast to them, before gamma and beta or after: the op says where it rounds. The
// casts around a norm that is an op become part of it too.
#include <algorithm>

#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "ops/normalization/norm.h"
#include "ops/rearrange/reshape.h"
#include "ops/reductions/reduce.h"
#include "passes/casts.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

struct Match {
  NormKind kind = NormKind::rms;
  ValueId x;
  double eps = 0;
  int64_t axis = -1;  // the first one
  ValueId gamma = {};
  ValueId beta = {};
  NormRounding rounding = NormRounding::once;
  bool is_op = false;  // which was there before: its roundings stay
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), uses_(uses(graph)), states_(graph) {}

  // The norm that ends with this node.
  std::optional<Match> match(int32_t id) {
    std::optional<Match> m = quotient(id);
    if (!m) m = op(id);
    if (!m) m = narrowed(id);
    if (!m) m = with_vector(id);
    if (!m || !(graph_.type(m->x).shape == graph_.node(id).outputs[0].shape)) return std::nullopt;
    if (!states_.readable_at(widened_source(graph_, m->x).value_or(m->x), id)) return std::nullopt;
    found_[id] = *m;
    return m;
  }

 private:
  // Its inputs, if it is this function of floats, which then have its type.
  std::span<const ValueId> inputs_of(const Node& n, std::string_view function) const {
    const auto* op = op_cast<Elementwise>(*n.op);
    if (!op || op->fn->name != function || !is_float(n.outputs[0].dtype)) return {};
    return n.inputs;
  }
  std::span<const ValueId> inputs_of(ValueId v, std::string_view function) const {
    return inputs_of(graph_.producer(v), function);
  }

  // What a mean over the last axes, which stay with length 1, is made of, and the first of them.
  struct Averaged {
    ValueId of;
    int64_t axis;
  };
  std::optional<Averaged> averaged(ValueId v) const {
    const Node& n = graph_.producer(v);
    const auto* op = op_cast<Reduce>(*n.op);
    if (!op || op->kind != ReduceKind::mean || !op->keepdims || op->axes.empty()) return std::nullopt;
    const int64_t rank = graph_.type(n.inputs[0]).shape.rank();
    std::vector<int64_t> axes;  // from the end
    for (const int64_t axis : op->axes) axes.push_back(axis < 0 ? -axis : rank - axis);
    std::ranges::sort(axes);
    for (int64_t i = 0; i < std::ssize(axes); ++i) {
      if (axes[static_cast<size_t>(i)] != i + 1) return std::nullopt;
    }
    return Averaged{n.inputs[0], -std::ssize(axes)};
  }

  bool is_number(ValueId v, double number) const { return scalar_constant(graph_, v) == number; }

  // Before reshapes, which canonicalize moves behind the square.
  ValueId unshaped(ValueId v) const {
    while (op_cast<Reshape>(*graph_.producer(v).op)) v = graph_.producer(v).inputs[0];
    return v;
  }

  // c without its reshapes, if v is c^2.
  std::optional<ValueId> root_of(ValueId v) const {
    const auto root = square_root(unshaped(v));
    return root ? std::optional(unshaped(*root)) : std::nullopt;
  }
  std::optional<ValueId> square_root(ValueId v) const {
    if (const auto in = inputs_of(v, "square"); !in.empty()) return in[0];
    if (const auto in = inputs_of(v, "pow"); !in.empty() && is_number(in[1], 2)) return in[0];
    if (const auto in = inputs_of(v, "mul"); !in.empty() && in[0] == in[1]) return in[0];
    return std::nullopt;
  }

  struct Spread {
    ValueId centered;  // without its reshapes
    Shape shape;
    double eps;
    int64_t axis;
  };
  // v = mean(c^2) + eps
  std::optional<Spread> spread(ValueId v) const {
    const auto in = inputs_of(v, "add");
    for (size_t i = 0; i < in.size(); ++i) {
      const auto eps = scalar_constant(graph_, in[1 - i]);
      const auto squares = eps ? averaged(in[i]) : std::nullopt;
      const auto c = squares ? root_of(squares->of) : std::nullopt;
      if (c && *eps >= 0) return Spread{*c, graph_.type(squares->of).shape, *eps, squares->axis};
    }
    return std::nullopt;
  }
  // v = sqrt(mean(c^2) + eps)
  std::optional<Spread> deviation(ValueId v) const {
    const auto in = inputs_of(v, "sqrt");
    return in.empty() ? std::nullopt : spread(in[0]);
  }
  // The same as a factor. (The root in rsqrt is not rounded.)
  std::optional<Spread> reciprocal(ValueId v) const {
    const bool f32 = graph_.type(v).dtype == DType::f32;
    if (const auto in = inputs_of(v, "rsqrt"); f32 && !in.empty()) return spread(in[0]);
    if (const auto in = inputs_of(v, "reciprocal"); !in.empty()) return deviation(in[0]);
    if (const auto in = inputs_of(v, "div"); !in.empty() && is_number(in[0], 1)) return deviation(in[1]);
    return std::nullopt;
  }

  std::optional<Match> quotient(int32_t id) const {
    const Node& n = graph_.node(id);
    if (const auto in = inputs_of(n, "div"); !in.empty())
      return rounding_each(of(in[0], deviation(in[1])), n, NormKind::layer);
    const auto in = inputs_of(n, "mul");
    for (size_t i = 0; i < in.size(); ++i) {
      if (const auto m = of(in[i], reciprocal(in[1 - i]))) return rounding_each(m, n, NormKind::rms);
    }
    return std::nullopt;
  }

  // Of 16-bit floats: only norms of this kind round what these nodes round.
  static std::optional<Match> rounding_each(std::optional<Match> m, const Node& n, NormKind kind) {
    if (!m || n.outputs[0].dtype == DType::f32) return m;
    if (m->kind != kind) return std::nullopt;
    m->rounding = NormRounding::each;
    return m;
  }

  std::optional<Match> of(ValueId c, const std::optional<Spread>& s) const {
    if (!s || s->centered != unshaped(c) || !(s->shape == graph_.type(c).shape)) return std::nullopt;
    if (const auto x = before_centering(c, s->axis))
      return Match{.kind = NormKind::layer, .x = *x, .eps = s->eps, .axis = s->axis};
    return Match{.x = c, .eps = s->eps, .axis = s->axis};
  }

  // x, if c is x - mean(x).
  std::optional<ValueId> before_centering(ValueId c, int64_t axis) const {
    const auto in = inputs_of(c, "sub");
    const auto mean = in.empty() ? std::nullopt : averaged(in[1]);
    return mean && mean->of == in[0] && mean->axis == axis ? std::optional(in[0]) : std::nullopt;
  }

  // A norm that is one node, over the last axes.
  std::optional<Match> op(int32_t id) const {
    const Node& n = graph_.node(id);
    const auto* norm = op_cast<Norm>(*n.op);
    if (!norm || norm->only_axis) return std::nullopt;
    const int64_t rank = n.outputs[0].shape.rank();
    const auto input = [&](size_t i) { return i < n.inputs.size() ? n.inputs[i] : ValueId(); };
    return Match{.kind = norm->kind,
                 .x = n.inputs[0],
                 .eps = norm->eps,
                 .axis = normal_axis(norm->axis, rank) - rank,
                 .gamma = input(1),
                 .beta = input(2),
                 .rounding = norm->rounding,
                 .is_op = true};
  }

  // The norm that was found there, if nothing else reads it.
  const Match* norm_at(ValueId v) const {
    const auto norm = found_.find(v.node);
    return norm != found_.end() && v.output == 0 && uses_.at(v).size() == 1 ? &norm->second : nullptr;
  }

  // A norm of f32 that was found, cast to 16-bit floats.
  std::optional<Match> narrowed(int32_t id) const {
    const Node& n = graph_.node(id);
    if (!op_cast<Cast>(*n.op) || !is_16_bit_float(n.outputs[0].dtype) ||
        graph_.type(n.inputs[0]).dtype != DType::f32)
      return std::nullopt;
    const Match* const norm = norm_at(n.inputs[0]);
    if (!norm || norm->rounding != NormRounding::once) return std::nullopt;
    Match m = *norm;
    // PyTorch casts a layer norm of f16 to f32 after the mean.
    const auto c = m.kind == NormKind::rms && m.gamma.is_absent() && m.beta.is_absent()
                       ? before_widening(graph_, m.x)
                       : std::nullopt;
    const auto x = c ? before_centering(*c, m.axis) : std::nullopt;
    if (x && graph_.type(*x).dtype == n.outputs[0].dtype) {
      m.kind = NormKind::layer;
      m.x = *x;
      m.rounding = NormRounding::centered;
    }
    return m;
  }

  // A norm that was found, multiplied with gamma, or with beta added to it.
  std::optional<Match> with_vector(int32_t id) const {
    const Node& n = graph_.node(id);
    const auto* op = op_cast<Elementwise>(*n.op);
    if (!op || (op->fn->name != "mul" && op->fn->name != "add")) return std::nullopt;
    const bool factor = op->fn->name == "mul";
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId vector = n.inputs[1 - i];
      const Match* const norm = norm_at(n.inputs[i]);
      if (!norm || !is_weight(vector, n.outputs[0].shape, norm->axis)) continue;
      Match m = *norm;
      ValueId& to = factor ? m.gamma : m.beta;
      if (!to.is_absent() || (factor && !m.beta.is_absent()) || !rounds_before(n, m)) continue;
      to = vector;
      return m;
    }
    return std::nullopt;
  }

  // Whether the op can round where nodes do that multiply the norm, or add to it.
  static bool rounds_before(const Node& n, Match& m) {
    if (n.outputs[0].dtype == DType::f32) return !m.is_op;
    if (m.rounding == NormRounding::once && !m.gamma.is_absent()) return false;
    m.rounding = std::max(m.rounding, NormRounding::scaled);
    return true;
  }

  // Whether it has the shape of the axes from `axis` on.
  bool is_weight(ValueId v, const Shape& like, int64_t axis) const {
    const Shape& shape = graph_.type(v).shape;
    if (shape.rank() != -axis) return false;
    for (int64_t i = 0; i < shape.rank(); ++i) {
      if (!(shape[i] == like[like.rank() + axis + i])) return false;
    }
    return true;
  }

  const Graph& graph_;
  const std::map<ValueId, std::vector<int32_t>> uses_;
  const StateVersions states_;
  std::map<int32_t, Match> found_;
};

}  // namespace

Graph fuse_norms(const Graph& graph) {
  Matcher matcher(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const std::optional<Match> m = matcher.match(id);
    if (!m) {
      rewriter.copy(id);
      continue;
    }
    auto op = std::make_shared<Norm>(m->kind);
    op->eps = m->eps;
    op->axis = m->axis;
    op->rounding = m->rounding;
    const DType type = graph.node(id).outputs[0].dtype;
    const ValueId x = without_widening(rewriter, m->x);
    if (rewriter.target().type(x).dtype != type) op->to = type;
    rewriter.replace(id, op, {x, rewriter.mapped(m->gamma), rewriter.mapped(m->beta)});
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
