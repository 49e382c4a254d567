// norm(clamp(x)) in one kernel, as T5 has it in f16: a number a clamps x on both sides where anything in x is
// infinite (or any other flag of x is set), a larger one b where nothing is. The smallest of where(flag, a,
// b) is that number, which one reduction finds; the clamped x is an output too when others read it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "ops/normalization/norm.h"
#include "ops/reductions/reduce.h"
#include "passes/casts.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

struct Match {
  ValueId x, clamped;
  ValueId flags;                    // of the shape of x
  ValueId low, high;                // numbers of f32: where a flag is set, and where none is
  std::vector<int32_t> casts = {};  // of the clamped x to f32, before the norm
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), uses_(uses(graph)), states_(graph) {}

  std::optional<Match> match(int32_t id) const {
    const Node& n = graph_.node(id);
    const auto* norm = op_cast<Norm>(*n.op);
    if (!norm || norm->only_axis) return std::nullopt;
    std::optional<Match> m = clamp(n.inputs[0]);
    if (!m || !states_.readable_at(m->x, id) || !states_.readable_at(m->flags, id)) return std::nullopt;
    // The clamped x is made by the norm, which must be the first that reads it, but for casts that can wait.
    const auto later = [&](int32_t user) { return user < 0 || user >= id; };
    for (const int32_t user : uses_.at(m->clamped)) {
      if (later(user)) continue;
      const auto readers = uses_.find({user, 0});
      const bool can_wait = before_widening(graph_, {user, 0}) && readers != uses_.end() &&
                            std::ranges::all_of(readers->second, later);
      if (!can_wait) return std::nullopt;
      m->casts.push_back(user);
    }
    return m;
  }

 private:
  std::span<const ValueId> inputs_of(ValueId v, std::string_view function) const {
    const Node& n = graph_.producer(v);
    const auto* op = op_cast<Elementwise>(*n.op);
    return op && op->fn->name == function ? std::span(n.inputs) : std::span<const ValueId>();
  }
  // What a number is a cast of, or itself.
  ValueId before_cast(ValueId v) const {
    return op_cast<Cast>(*graph_.producer(v).op) ? graph_.producer(v).inputs[0] : v;
  }

  // v = min(max(x, -cast(limit)), cast(limit)), in either order of the arguments.
  std::optional<Match> clamp(ValueId v) const {
    const auto outer = inputs_of(v, "minimum");
    for (size_t i = 0; i < outer.size(); ++i) {
      const auto inner = inputs_of(outer[i], "maximum");
      for (size_t j = 0; j < inner.size(); ++j) {
        const auto negated = inputs_of(before_cast(inner[1 - j]), "neg");
        const ValueId limit = before_cast(outer[1 - i]);
        if (negated.empty() || negated[0] != limit || uses_.at(outer[i]).size() != 1) continue;
        if (std::optional<Match> m = limit_of(limit, inner[j])) {
          m->clamped = v;
          if (graph_.type(inner[j]) == graph_.type(v)) return m;
        }
      }
    }
    return std::nullopt;
  }

  // limit = where(max(cast(flags)) > 0, a, b) with a <= b.
  std::optional<Match> limit_of(ValueId limit, ValueId x) const {
    const auto choice = inputs_of(limit, "where");
    if (choice.empty() || !(graph_.type(limit) == TensorType{DType::f32, {}})) return std::nullopt;
    const auto low = scalar_constant(graph_, choice[1]), high = scalar_constant(graph_, choice[2]);
    const auto any = inputs_of(choice[0], "greater");
    if (!low || !high || !(0 <= *low && *low <= *high) || any.empty() || scalar_constant(graph_, any[1]) != 0)
      return std::nullopt;
    const Node& largest = graph_.producer(any[0]);
    const auto* op = op_cast<Reduce>(*largest.op);
    if (!op || op->kind != ReduceKind::max) return std::nullopt;
    const ValueId flags = before_cast(largest.inputs[0]);
    const TensorType& type = graph_.type(flags);
    if (type.dtype != DType::bool_ || !(type.shape == graph_.type(x).shape)) return std::nullopt;
    return Match{.x = x, .clamped = {}, .flags = flags, .low = choice[1], .high = choice[2]};
  }

  const Graph& graph_;
  const std::map<ValueId, std::vector<int32_t>> uses_;
  const StateVersions states_;
};

}  // namespace

Graph fuse_clamped_norm(const Graph& graph) {
  const Matcher matcher(graph);
  const auto users = uses(graph);
  std::map<int32_t, Match> matches;  // by norm
  std::set<int32_t> waiting;
  for (int32_t id = 0; id < graph.size(); ++id) {
    if (std::optional<Match> m = matcher.match(id)) {
      waiting.insert(m->casts.begin(), m->casts.end());
      matches.emplace(id, *std::move(m));
    }
  }
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const auto it = matches.find(id);
    if (it == matches.end()) {
      if (!waiting.contains(id)) rewriter.copy(id);
      continue;
    }
    const Match& m = it->second;
    const Node& n = graph.node(id);
    const auto* norm = op_cast<Norm>(*n.op);
    Graph& target = rewriter.target();
    const ValueId limits = target.add(
        elementwise("where"), {rewriter.mapped(m.flags), rewriter.mapped(m.low), rewriter.mapped(m.high)},
        n.name + ".limits");
    const ValueId limit = target.add(std::make_shared<Reduce>(ReduceKind::min), {limits}, n.name + ".limit");
    auto op = std::make_shared<ResidualNorm>(norm->kind);
    op->keep_sum = users.at(m.clamped).size() > 1;
    op->eps = norm->eps;
    op->axis = norm->axis;
    op->to = norm->to;
    op->rounding = norm->rounding;
    const ValueId none;
    std::vector<ValueId> inputs = {rewriter.mapped(m.x), none, none, none, none, limit};
    for (size_t i = 1; i < n.inputs.size(); ++i) inputs[2 + i] = rewriter.mapped(n.inputs[i]);
    const ValueId fused = target.add(op, std::move(inputs), n.name);
    rewriter.map({id, 0}, fused);
    if (op->keep_sum) rewriter.map(m.clamped, {fused.node, 1});
    for (const int32_t cast : m.casts) rewriter.copy(cast);
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
