// What a body computes from params and constants alone is the same in each of its runs: the graph around it
// computes it, in its load phase, and passes it in.
#include <algorithm>
#include <set>

#include "ir/load_phase.h"
#include "ir/subgraphs.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// The values of a body that are worth passing in. Leaves and views of them cost nothing where they are, and a
// view of a value stays behind it: what is passed in is contiguous.
std::set<ValueId> weights_of(const Graph& body) {
  const std::vector<bool> loaded = in_load_phase(body);
  std::set<ValueId> found;
  const auto use = [&](ValueId v) {
    while (!v.is_absent() && loaded[static_cast<size_t>(v.node)]) {
      const Node& n = body.producer(v);
      if (n.op->is_leaf()) return;
      if (!n.op->has(Trait::view)) {
        found.insert(v);
        return;
      }
      v = n.inputs[0];
    }
  };
  for (int32_t id = 0; id < body.size(); ++id) {
    if (loaded[static_cast<size_t>(id)]) continue;
    for (ValueId v : body.node(id).inputs) use(v);
  }
  for (const Graph::Output& o : body.outputs()) use(o.value);
  return found;
}

class Hoister {
 public:
  explicit Hoister(const Graph& graph) : rewriter_(graph) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    // Leaves first: a body may need one that comes later.
    for (int32_t id = 0; id < g.size(); ++id) {
      if (g.node(id).op->is_leaf()) rewriter_.copy(id);
    }
    for (int32_t id = 0; id < g.size(); ++id) {
      const Node& n = g.node(id);
      if (n.op->is_leaf()) continue;
      if (n.op->has(Trait::control_flow)) {
        node_with_bodies(id);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  void node_with_bodies(int32_t id) {
    const Node& n = rewriter_.source().node(id);
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter_.mapped(v));
    OpPtr op = n.op;
    const auto bodies = n.op->subgraphs().size();
    for (size_t b = 0; b < bodies; ++b) {
      const GraphPtr body = op->subgraphs()[b].graph;
      for (const ValueId v : weights_of(*body)) {
        // Those that are optional come first and keep their places.
        while (n.op->optional_input(std::ssize(inputs))) inputs.emplace_back();
        inputs.push_back(outside(*body, v, n.name));
        given_.emplace_back(b, v);
      }
    }
    if (!given_.empty()) op = with_inputs(op);
    given_.clear();
    made_.clear();
    rewriter_.replace(id, op, std::move(inputs));
  }

  // The same value in the graph around the body.
  ValueId outside(const Graph& body, ValueId v, const std::string& name) {
    const Node& n = body.producer(v);
    const auto [it, fresh] = made_.emplace(std::pair(&body, v.node), -1);
    if (!fresh) return {it->second, v.output};
    Graph& target = rewriter_.target();
    int32_t node = -1;
    if (n.op->is(LeafKind::param)) {
      node = target.find(n.name);
      if (node >= 0 && !target.node(node).op->is(LeafKind::param)) {
        target.rename(node, n.name + ".value");  // params are addressed by their names
        node = -1;
      }
      if (node < 0) node = target.add(n.op, {}, n.name).node;
    } else {
      std::vector<ValueId> inputs;
      for (ValueId in : n.inputs) inputs.push_back(in.is_absent() ? in : outside(body, in, name));
      node = target.add(n.op, std::move(inputs), name + "." + n.name).node;
    }
    made_[{&body, v.node}] = node;
    return {node, v.output};
  }

  // The op with an input for each of given_ in all its bodies.
  OpPtr with_inputs(const OpPtr& op) const {
    size_t index = 0;
    const std::vector<Subgraph> bodies = op->subgraphs();
    return map_subgraphs(op, [&](const Graph& body) {
      const size_t mine = index++;
      Rewriter rewriter(body);
      for (int32_t id = 0; id < body.size(); ++id) {
        if (body.node(id).op->is_leaf()) rewriter.copy(id);
      }
      std::map<ValueId, ValueId> passed_in;
      for (const auto& [owner, v] : given_) {
        const TensorType& type = bodies[owner].graph->type(v);
        std::string name = bodies[owner].graph->producer(v).name;
        while (rewriter.target().find(name) >= 0 || body.find(name) >= 0) name += ".passed";
        const ValueId fresh = rewriter.target().input(name, type.dtype, type.shape).id();
        if (owner == mine) passed_in[v] = fresh;
      }
      for (int32_t id = 0; id < body.size(); ++id) {
        if (!body.node(id).op->is_leaf()) rewriter.copy(id);
        for (int32_t o = 0; o < static_cast<int32_t>(body.node(id).outputs.size()); ++o) {
          if (const auto it = passed_in.find({id, o}); it != passed_in.end())
            rewriter.map({id, o}, it->second);
        }
      }
      return remove_dead_code(rewriter.finish());
    });
  }

  Rewriter rewriter_;
  std::vector<std::pair<size_t, ValueId>> given_;             // body and value, in the order of the inputs
  std::map<std::pair<const Graph*, int32_t>, int32_t> made_;  // nodes of bodies in the new graph
};

}  // namespace

Graph hoist_weights(const Graph& graph) {
  const auto has_bodies = [](const Node& n) { return n.op->has(Trait::control_flow); };
  return std::ranges::any_of(graph.nodes(), has_bodies) ? Hoister(graph).run() : graph;
}

}  // namespace rlx
