// Finds rotary position embeddings that are written out, as exporters do: x * cos + r * sin. In r, the two of
// each pair change places, and the second, which comes first now, is negated; pairs are either the two halves
// of x (Llama) or neighbours (Moonshine). cos and sin hold each number twice, once for each of a pair, which
// must be visible in how they are computed. Products of 16-bit floats are rounded, in the op too.
#include <algorithm>

#include "ir/states.h"
#include "ops/attention/rope.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rearrange/concat.h"
#include "ops/rearrange/expand.h"
#include "ops/rearrange/gather.h"
#include "ops/rearrange/reshape.h"
#include "ops/rearrange/slice.h"
#include "ops/rearrange/transpose.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

namespace rlx {
namespace {

// A part of the last axis of a value.
struct Window {
  ValueId of;
  int64_t start = 0, length = 0, step = 1;
  friend bool operator==(const Window&, const Window&) = default;

  Window part(int64_t first, int64_t count, int64_t apart = 1) const {
    return {of, start + first * step, count, step * apart};
  }
};

struct Match {
  ValueId x;
  ValueId cos, sin;
  bool interleaved = false;
  int64_t rotated = 0;  // elements of the last axis, from its begin on
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), states_(graph) {}

  // The embedding that ends with this node.
  std::optional<Match> match(int32_t id) {
    std::optional<Match> m = whole(id);
    if (!m) m = with_rest(id);
    if (!m || !states_.readable_at(m->x, id)) return std::nullopt;
    found_[id] = *m;
    return m;
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  // The length of the last axis; 0 if it is not known.
  int64_t width(ValueId v) const {
    const Shape& s = shape(v);
    return s.rank() > 0 && s[s.rank() - 1].is_static() ? s[s.rank() - 1].value() : 0;
  }
  bool is_last(int64_t axis, ValueId v) const {
    return normal_axis(axis, shape(v).rank()) == shape(v).rank() - 1;
  }

  std::span<const ValueId> inputs_of(ValueId v, std::string_view function) const {
    const Node& n = graph_.producer(v);
    const auto* op = op_cast<Elementwise>(*n.op);
    if (!op || op->fn->name != function || !is_float(n.outputs[0].dtype)) return {};
    return n.inputs;
  }

  // The two parts of a concat along the last axis.
  std::span<const ValueId> joined(ValueId v) const {
    const Node& n = graph_.producer(v);
    const auto* op = op_cast<Concat>(*n.op);
    return op && n.inputs.size() == 2 && is_last(op->axis, v) ? std::span(n.inputs)
                                                              : std::span<const ValueId>();
  }

  // What a value is of the one that it is cut from.
  Window window(ValueId v) const {
    Window w{.of = v, .length = width(v)};
    for (;;) {
      const Node& n = graph_.producer(w.of);
      const auto* op = op_cast<Slice>(*n.op);
      if (!op || !is_last(op->axis, w.of) || !op->start.is_static()) return w;
      w = {n.inputs[0], op->start.value() + w.start * op->step, w.length, w.step * op->step};
    }
  }

  // The same elements with an axis of length 1 behind them.
  std::optional<ValueId> before_unsqueeze(ValueId v) const {
    const Node& n = graph_.producer(v);
    if (!op_cast<Reshape>(*n.op)) return std::nullopt;
    Shape longer = shape(n.inputs[0]);
    longer.push_back(1);
    return longer == shape(v) ? std::optional(n.inputs[0]) : std::nullopt;
  }

  // u, if v is -u.
  std::optional<ValueId> negated(ValueId v) const {
    const auto in = inputs_of(v, "neg");
    return in.empty() ? std::nullopt : std::optional(in[0]);
  }
  // The same for -u with an axis behind it.
  std::optional<ValueId> negated_before_unsqueeze(ValueId v) const {
    if (const auto u = before_unsqueeze(v)) return negated(*u);
    const auto u = negated(v);
    return u ? before_unsqueeze(*u) : std::nullopt;
  }

  bool is_rotated_half(ValueId r, const Window& x) const {
    const auto parts = joined(r);
    const auto second = parts.empty() ? std::nullopt : negated(parts[0]);
    return second && window(*second) == x.part(x.length / 2, x.length / 2) &&
           window(parts[1]) == x.part(0, x.length / 2);
  }

  bool is_rotated_by_neighbours(ValueId r, const Window& x) const {
    if (!op_cast<Reshape>(*graph_.producer(r).op)) return false;
    const ValueId stacked = graph_.producer(r).inputs[0];
    Shape pairs = shape(r);
    pairs[pairs.rank() - 1] = x.length / 2;
    pairs.push_back(2);
    const auto parts = joined(stacked);
    if (parts.empty() || !(shape(stacked) == pairs)) return false;
    const auto second = negated_before_unsqueeze(parts[0]);
    const auto first = before_unsqueeze(parts[1]);
    return second && first && window(*second) == x.part(1, x.length / 2, 2) &&
           window(*first) == x.part(0, x.length / 2, 2);
  }

  // x * cos + r * sin, in any order.
  std::optional<Match> whole(int32_t id) {
    const auto sum = inputs_of({id, 0}, "add");
    for (size_t i = 0; i < sum.size(); ++i) {
      const auto kept = inputs_of(sum[i], "mul");
      const auto turned = inputs_of(sum[1 - i], "mul");
      for (size_t a = 0; a < kept.size(); ++a) {
        for (size_t b = 0; b < turned.size(); ++b) {
          if (const auto m = of(id, {kept[a], kept[1 - a], turned[1 - b]}, turned[b])) return m;
        }
      }
    }
    return std::nullopt;
  }

  std::optional<Match> of(int32_t id, Match m, ValueId r) {
    const int64_t length = width(m.x);
    if (length < 2 || length % 2 != 0 || !(graph_.type(m.x) == graph_.node(id).outputs[0]) ||
        !(shape(r) == shape(m.x)) || !are_tables(m))
      return std::nullopt;
    const Window x = window(m.x);
    m.interleaved = is_rotated_by_neighbours(r, x);
    m.rotated = length;
    if (!m.interleaved && !is_rotated_half(r, x)) return std::nullopt;
    return is_doubled(m.cos, m.interleaved) && is_doubled(m.sin, m.interleaved) ? std::optional(m)
                                                                                : std::nullopt;
  }

  // They have a row for each row of x, or for some of its axes.
  bool are_tables(const Match& m) const {
    const Shape& table = shape(m.cos);
    return table == shape(m.sin) && table.rank() >= 2 && table.rank() <= shape(m.x).rank() &&
           shape(m.x).rank() >= 2 && width(m.cos) == width(m.x);
  }

  // An embedding of the first elements, and behind it those that it leaves as they are.
  std::optional<Match> with_rest(int32_t id) const {
    const auto parts = joined({id, 0});
    const auto first = parts.empty() ? found_.end() : found_.find(parts[0].node);
    if (first == found_.end()) return std::nullopt;
    Match m = first->second;
    const Window x = window(m.x);
    const int64_t all = width(x.of);
    if (m.rotated != x.length || !(graph_.type(x.of) == graph_.node(id).outputs[0]) || all % 2 != 0)
      return std::nullopt;
    if (x != Window{x.of, 0, m.rotated} || window(parts[1]) != Window{x.of, m.rotated, all - m.rotated})
      return std::nullopt;
    m.x = x.of;
    return m;
  }

  // Whether both elements of each pair of the last axis are the same number.
  bool is_doubled(ValueId v, bool interleaved) {
    const auto [it, fresh] = doubled_.try_emplace({v, interleaved}, false);
    if (!fresh) return it->second;
    const bool result = computed_doubled(v, interleaved);
    return doubled_[{v, interleaved}] = result;
  }

  bool computed_doubled(ValueId v, bool interleaved) {
    const Node& n = graph_.producer(v);
    const int64_t length = width(v);
    if (length == 0) return false;
    const auto keeps = [&](ValueId in) { return width(in) == length && is_doubled(in, interleaved); };
    if (const auto* constant = op_cast<Constant>(*n.op)) return has_pairs(constant->value, interleaved);
    if (op_cast<Elementwise>(*n.op) || op_cast<Cast>(*n.op)) {
      return std::ranges::all_of(
          n.inputs, [&](ValueId in) { return shape(in).rank() == 0 || width(in) == 1 || keeps(in); });
    }
    if (const auto* op = op_cast<Concat>(*n.op)) {
      if (!is_last(op->axis, v)) return std::ranges::all_of(n.inputs, keeps);
      return (!interleaved || length == 2) && n.inputs.size() == 2 && n.inputs[0] == n.inputs[1];
    }
    if (op_cast<Reshape>(*n.op)) {
      const ValueId in = n.inputs[0];
      if (keeps(in)) return true;
      // Pairs of equals, one after the other.
      return interleaved && shape(in).rank() >= 2 && width(in) == 2 &&
             shape(in)[shape(in).rank() - 2].is(length / 2) && is_doubled(in, interleaved);
    }
    if (op_cast<Expand>(*n.op)) return width(n.inputs[0]) == 1 || keeps(n.inputs[0]);
    if (const auto* op = op_cast<Slice>(*n.op)) return !is_last(op->axis, v) && keeps(n.inputs[0]);
    if (const auto* op = op_cast<Gather>(*n.op)) return !is_last(op->axis, n.inputs[0]) && keeps(n.inputs[0]);
    if (const auto* op = op_cast<Transpose>(*n.op)) {
      const int64_t rank = shape(v).rank();
      return op->order(rank).back() == rank - 1 && keeps(n.inputs[0]);
    }
    return false;
  }

  static bool has_pairs(const Tensor& t, bool interleaved) {
    const int64_t length = t.shape().back();
    if (length % 2 != 0) return false;
    const std::vector<double> values = t.doubles();
    for (int64_t row = 0; row < t.elements(); row += length) {
      for (int64_t i = 0; i < length / 2; ++i) {
        const int64_t a = row + (interleaved ? 2 * i : i);
        const int64_t b = a + (interleaved ? 1 : length / 2);
        if (values[static_cast<size_t>(a)] != values[static_cast<size_t>(b)]) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  const StateVersions states_;
  std::map<int32_t, Match> found_;
  std::map<std::pair<ValueId, bool>, bool> doubled_;
};

// Makes what the op reads of the tables that were found, once for all layers.
class Tables {
 public:
  explicit Tables(Rewriter& rewriter) : rewriter_(rewriter) {}

  // [rows, pairs]: each number once.
  ValueId table(ValueId full, const Match& m) {
    ValueId& made = tables_[{full, m.interleaved}];
    if (made.is_absent()) {
      const Value v = rewriter_.target().value(rewriter_.mapped(full));
      const Value once = slice(v, -1, 0, m.rotated / 2, m.interleaved ? 2 : 1);
      made = reshape(once, {rows(v.shape()), m.rotated / 2}).id();
    }
    return made;
  }

  // The row for each place in x; absent if it is the index along the axis of positions.
  ValueId positions(const Match& m) {
    const Shape& table = rewriter_.source().type(m.cos).shape;
    const Shape& x = rewriter_.source().type(m.x).shape;
    const int64_t axis = table.rank() - 2;
    const bool one_axis =
        std::all_of(table.begin(), table.begin() + axis, [](const Dim& d) { return d.is(1); });
    if (one_axis && table[axis] == x[x.rank() - 2]) return {};
    const Shape leading(std::vector<Dim>(table.begin(), table.end() - 1));
    ValueId& made = positions_[leading.text()];
    if (made.is_absent())
      made = reshape(range(rewriter_.target(), rows(table), 0, 1, DType::i32), leading).id();
    return made;
  }

 private:
  static Dim rows(const Shape& table) {
    Dim out = 1;
    for (int64_t i = 0; i + 1 < table.rank(); ++i) out = out * table[i];
    return out;
  }

  Rewriter& rewriter_;
  std::map<std::pair<ValueId, bool>, ValueId> tables_;
  std::map<std::string, ValueId> positions_;
};

}  // namespace

Graph fuse_rope(const Graph& graph) {
  Matcher matcher(graph);
  Rewriter rewriter(graph);
  Tables tables(rewriter);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const std::optional<Match> m = matcher.match(id);
    if (!m) {
      rewriter.copy(id);
      continue;
    }
    auto op = std::make_shared<Rope>();
    const Shape& x = graph.type(m->x).shape;
    op->head_dim = x[x.rank() - 1].value();
    op->interleaved = m->interleaved;
    op->rotated = m->rotated == op->head_dim ? 0 : m->rotated;
    op->round_products = graph.type(m->x).dtype != DType::f32;
    rewriter.replace(
        id, op,
        {rewriter.mapped(m->x), tables.table(m->cos, *m), tables.table(m->sin, *m), tables.positions(*m)});
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
