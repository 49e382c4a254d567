// The rope of queries and keys, and the writes of keys and values into their caches, become one node if they
// read neighbouring slices of one value (the joint product of all three).
#include <algorithm>
#include <set>

#include "ir/states.h"
#include "ops/attention/rope_write.h"
#include "ops/rearrange/slice.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// Elements [begin, end) of the last axis of a value.
struct Columns {
  ValueId of;
  int64_t begin, end;
};

std::optional<Columns> as_columns(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  const auto* const slice = op_cast<Slice>(*n.op);
  if (!slice || slice->step != 1 || !slice->start.is_static() || !slice->length.is_static())
    return std::nullopt;
  const int64_t rank = n.outputs[0].shape.rank();
  if (normal_axis(slice->axis, rank) != rank - 1) return std::nullopt;
  const int64_t begin = slice->start.value();
  return Columns{n.inputs[0], begin, begin + slice->length.value()};
}

class Fuser {
 public:
  // The graph is in running order.
  explicit Fuser(const Graph& graph) : rewriter_(graph), uses_(uses(graph)), states_(graph) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    std::map<int32_t, Match> matches;  // by write
    std::set<int32_t> queries;
    for (int32_t id = 0; id < g.size(); ++id) {
      if (const std::optional<Match> m = match(id)) {
        matches.emplace(id, *m);
        queries.insert(m->queries.node);
      }
    }
    for (int32_t id = 0; id < g.size(); ++id) {
      if (queries.contains(id)) continue;
      if (const auto it = matches.find(id); it != matches.end()) {
        replace(id, it->second);
      } else {
        rewriter_.copy(id);
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  struct Match {
    size_t keys;      // which of the two states the keys are written to
    ValueId queries;  // a slice of the rope
    int32_t rope;
    Columns turned;  // what the rope reads
    int64_t end;     // of the values, in the same value
  };

  std::optional<Match> match(int32_t id) const {
    const auto* const write = op_cast<WriteState>(*rewriter_.source().node(id).op);
    if (!write || write->states != 2) return std::nullopt;
    const std::optional<Match> first = match(id, 0);
    return first ? first : match(id, 1);
  }

  std::optional<Match> match(int32_t id, size_t keys) const {
    const Graph& g = rewriter_.source();
    const Node& write = g.node(id);
    const std::optional<Columns> k = as_columns(g, write.inputs[2 + keys]);
    const std::optional<Columns> v = as_columns(g, write.inputs[2 + (1 - keys)]);
    const Node* const rope = k ? &g.producer(k->of) : nullptr;
    if (!v || !rope || !op_cast<Rope>(*rope->op) || rope->inputs.size() != 3) return std::nullopt;
    const std::optional<Columns> turned = as_columns(g, rope->inputs[0]);
    if (!turned || turned->of != v->of || turned->end != v->begin) return std::nullopt;
    if (k->end != turned->end - turned->begin || uses_.at(write.inputs[2 + keys]).size() != 1)
      return std::nullopt;
    const std::optional<ValueId> queries = other_part(id, k->of, write.inputs[2 + keys], k->begin);
    if (!queries) return std::nullopt;
    // They are read where the write is.
    for (const ValueId read : {turned->of, rope->inputs[1], rope->inputs[2]}) {
      if (!states_.version(read).is_absent()) return std::nullopt;
    }
    return Match{keys, *queries, k->of.node, *turned, v->end};
  }

  // The part of the rope before the keys, if nothing else of it is read, and that only after the write.
  std::optional<ValueId> other_part(int32_t write, ValueId rope, ValueId keys, int64_t length) const {
    const std::vector<int32_t>& users = uses_.at(rope);
    if (users.size() != 2 || std::ranges::contains(users, -1)) return std::nullopt;
    const ValueId part{users[0] == keys.node ? users[1] : users[0], 0};
    const std::optional<Columns> columns = as_columns(rewriter_.source(), part);
    if (!columns || columns->begin != 0 || columns->end != length) return std::nullopt;
    const auto found = uses_.find(part);
    const bool later = found == uses_.end() || std::ranges::all_of(found->second, [&](int32_t user) {
                         return user == -1 || user > write;
                       });
    return later ? std::optional(part) : std::nullopt;
  }

  void replace(int32_t id, const Match& m) {
    const Graph& g = rewriter_.source();
    const Node& write = g.node(id);
    const Node& rope = g.node(m.rope);
    auto slice = std::make_shared<Slice>();
    slice->axis = -1;
    slice->start = m.turned.begin;
    slice->length = m.end - m.turned.begin;
    const ValueId x =
        rewriter_.target().add(slice, {rewriter_.mapped(m.turned.of)}, rope.name + ".with_values");
    auto op = std::make_shared<RopeWrite>();
    op->rope = *op_cast<Rope>(*rope.op);
    op->axis = op_cast<WriteState>(*write.op)->axis;
    op->start = op_cast<WriteState>(*write.op)->start;
    op->queries = as_columns(g, m.queries)->end;
    op->keys = m.turned.end - m.turned.begin - op->queries;
    const ValueId fused = rewriter_.target().add(
        op,
        {rewriter_.mapped(write.inputs[m.keys]), rewriter_.mapped(write.inputs[1 - m.keys]), x,
         rewriter_.mapped(rope.inputs[1]), rewriter_.mapped(rope.inputs[2])},
        write.name);
    rewriter_.map({id, static_cast<int32_t>(m.keys)}, fused);
    rewriter_.map({id, static_cast<int32_t>(1 - m.keys)}, {fused.node, 1});
    rewriter_.map(m.queries, {fused.node, 2});
  }

  Rewriter rewriter_;
  std::map<ValueId, std::vector<int32_t>> uses_;
  const StateVersions states_;
};

}  // namespace

Graph fuse_rope_write(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace rlx
