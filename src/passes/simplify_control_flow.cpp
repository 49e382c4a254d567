// What is decided before the run needs no branch or loop in it.
#include <algorithm>

#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/control_flow/if.h"
#include "ops/control_flow/loop.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/expand.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// Whether the body of another node writes a state that the bodies of this one use. What such a body leaves in
// the state is no value of the graph, so nothing but a body can read it.
bool shares_written_state(const Graph& graph, const Node& n) {
  const std::map<std::string, bool> used = states_in_bodies(*n.op);
  if (used.empty()) return false;
  return std::ranges::any_of(graph.nodes(), [&](const Node& other) {
    return &other != &n && std::ranges::any_of(states_in_bodies(*other.op), [&](const auto& state) {
      return state.second && used.contains(state.first);
    });
  });
}

// The branch that is always taken; null if the run decides, or if it must stay a body.
const Graph* taken_branch(const Graph& graph, const Node& n) {
  const auto* op = op_cast<If>(*n.op);
  const std::optional<int64_t> condition = op ? constant_integer(graph, n.inputs[0]) : std::nullopt;
  if (!condition || shares_written_state(graph, n)) return nullptr;
  return *condition != 0 ? op->then_body.get() : op->else_body.get();
}

ValueId input_of(const Node& n, size_t i) { return i < n.inputs.size() ? n.inputs[i] : ValueId{}; }

// The number of iterations, if it is a number and nothing else can end the loop; also if it is none for
// another reason.
std::optional<int64_t> known_trips(const Graph& graph, const Node& n, const Loop& loop) {
  if (loop.exactly) return loop.exactly->is_static() ? std::optional(loop.exactly->value()) : std::nullopt;
  const std::optional<int64_t> trips = constant_integer(graph, input_of(n, 0));
  const std::optional<int64_t> condition = constant_integer(graph, input_of(n, 1));
  if (condition == 0 || (trips && *trips <= 0)) return 0;
  const bool always = (input_of(n, 1).is_absent() || condition) && loop.always_continues();
  return always ? trips : std::nullopt;
}

// A loop without stacked outputs can be told the number of its iterations without a change of types.
bool can_be_told(const Graph& graph, const Node& n) {
  const auto* loop = op_cast<Loop>(*n.op);
  return loop && !loop->exactly && loop->stacked() == 0 && loop->always_continues() &&
         known_trips(graph, n, *loop).value_or(0) > 0;
}

bool makes_no_iteration(const Graph& graph, const Node& n) {
  const auto* loop = op_cast<Loop>(*n.op);
  return loop && !loop->count && known_trips(graph, n, *loop) == 0;
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    // Leaves first, so that a body finds those it shares with the graph.
    for (int32_t id = 0; id < graph_.size(); ++id) {
      if (!graph_.node(id).op->is_leaf()) continue;
      const ValueId fresh = rewriter_.copy(id);
      if (graph_.node(id).op->is(LeafKind::state)) newest_[graph_.node(id).name] = fresh;
    }
    for (int32_t id = 0; id < graph_.size(); ++id) {
      const Node& n = graph_.node(id);
      if (n.op->is_leaf()) continue;
      if (const Graph* body = taken_branch(graph_, n)) {
        inline_branch(id, *body);
      } else if (makes_no_iteration(graph_, n)) {
        skip_loop(id);
      } else if (can_be_told(graph_, n)) {
        tell_trips(id);
      } else {
        note_writes(rewriter_.copy(id).node);
      }
    }
    return rewriter_.finish();
  }

 private:
  Graph& target() { return rewriter_.target(); }

  // Of a node of the new graph.
  void note_writes(int32_t id) {
    const Node& n = target().node(id);
    for (int32_t i = 0; i < static_cast<int32_t>(n.inputs.size()); ++i) {
      if (n.op->overwrites(i)) newest_[state_name(target(), {id, i})] = {id, i};
    }
  }

  // The value that stands for a param or state of a body.
  ValueId shared_leaf(const Node& leaf) {
    if (leaf.op->is(LeafKind::state)) {
      if (const auto newest = newest_.find(leaf.name); newest != newest_.end()) return newest->second;
    }
    const int32_t known = target().find(leaf.name);
    if (known >= 0 && target().node(known).op->leaf() == leaf.op->leaf()) return {known, 0};
    if (known >= 0) target().rename(known, leaf.name + ".value");  // leaves are addressed by their names
    const ValueId fresh = target().add(leaf.op, {}, leaf.name);
    if (leaf.op->is(LeafKind::state)) newest_[leaf.name] = fresh;
    return fresh;
  }

  void inline_branch(int32_t id, const Graph& body) {
    const Node& n = graph_.node(id);
    std::map<ValueId, ValueId> map;
    size_t next = 1;
    for (int32_t b = 0; b < body.size(); ++b) {
      const Node& leaf = body.node(b);
      if (leaf.op->is(LeafKind::input)) {
        map[{b, 0}] = rewriter_.mapped(n.inputs[next++]);
      } else if (leaf.op->is(LeafKind::param) || leaf.op->is(LeafKind::state)) {
        map[{b, 0}] = shared_leaf(leaf);
      }
    }
    const int32_t first = target().size();
    const std::vector<ValueId> outputs = inline_body(target(), body, std::move(map));
    for (int32_t fresh = first; fresh < target().size(); ++fresh) note_writes(fresh);
    for (size_t o = 0; o < outputs.size(); ++o) result({id, static_cast<int32_t>(o)}, outputs[o]);
  }

  // The node's output is what `value` was: a state may be written before the output is read.
  void result(ValueId output, ValueId value) {
    if (!StateVersions(target()).version(value).is_absent())
      value = target().add(std::make_shared<Contiguous>(), {value}, graph_.node(output.node).name);
    rewriter_.map(output, value);
  }

  void skip_loop(int32_t id) {
    const Node& n = graph_.node(id);
    const auto& loop = *op_cast<Loop>(*n.op);
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) {
      if (o < loop.carried) {
        result({id, o}, rewriter_.mapped(n.inputs[static_cast<size_t>(Loop::kFirstCarried + o)]));
        continue;
      }
      const TensorType& type = n.outputs[static_cast<size_t>(o)];  // without elements
      auto empty = std::make_shared<Expand>();
      empty->shape = type.shape;
      const ValueId zero = target().scalar(type.dtype, 0).id();
      rewriter_.map({id, o}, target().add(empty, {zero}, n.name));
    }
  }

  void tell_trips(int32_t id) {
    const Node& n = graph_.node(id);
    auto told = std::make_shared<Loop>(*op_cast<Loop>(*n.op));
    told->exactly = Dim(*known_trips(graph_, n, *told));
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter_.mapped(v));
    inputs[0] = inputs[1] = ValueId{};
    rewriter_.replace(id, told, std::move(inputs));
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<std::string, ValueId> newest_;  // version of each state, in the new graph
};

}  // namespace

std::optional<Graph> simplify_control_flow(const Graph& graph) {
  const auto decided = [&](const Node& n) {
    return taken_branch(graph, n) || makes_no_iteration(graph, n) || can_be_told(graph, n);
  };
  if (std::ranges::none_of(graph.nodes(), decided)) return std::nullopt;
  return Simplifier(graph).run();
}

}  // namespace rlx
