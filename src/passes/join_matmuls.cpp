// Products of one input with several weights (q, k and v; gate and up) become one product with the weights
// side by side. The weights are joined in the load phase; each former result is a view of the joint one,
// which its readers read in place.
#include <algorithm>

#include "ir/load_phase.h"
#include "ops/concat.h"
#include "ops/matmul.h"
#include "ops/slice.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : rewriter_(graph), weights_(in_load_phase(graph)) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    for (int32_t id = 0; id < g.size(); ++id) {
      if (candidate(id)) groups_[key_of(g.node(id))].push_back(id);
    }
    std::map<int32_t, const std::vector<int32_t>*> first_of;  // groups by first member, where they are built
    for (const auto& [key, members] : groups_) {
      if (members.size() > 1) first_of[members.front()] = &members;
    }
    // Weights depend on leaves only; copying all nodes made of weights first keeps the order legal.
    for (int32_t id = 0; id < g.size(); ++id) {
      if (weights_[static_cast<size_t>(id)]) rewriter_.copy(id);
    }
    for (int32_t id = 0; id < g.size(); ++id) {
      if (weights_[static_cast<size_t>(id)] || rewriter_.is_mapped({id, 0})) continue;
      if (const auto it = first_of.find(id); it != first_of.end()) {
        join(*it->second);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  // What products must have in common to be joined.
  struct Key {
    ValueId input;
    ExprAttr epilogue;
    std::vector<DType> weights;  // the matrix and what the epilogue reads
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  Key key_of(const Node& n) const {
    Key key{n.inputs[0], op_cast<MatMul>(*n.op)->epilogue, {}};
    for (size_t i = 1; i < n.inputs.size(); ++i)
      key.weights.push_back(rewriter_.source().type(n.inputs[i]).dtype);
    return key;
  }

  // A product with a weight matrix whose epilogue reads only vectors of weights, one number per column.
  bool candidate(int32_t id) const {
    const Graph& g = rewriter_.source();
    const Node& n = g.node(id);
    if (!op_cast<MatMul>(*n.op) || weights_[static_cast<size_t>(id)]) return false;
    const Shape& b = g.type(n.inputs[1]).shape;
    if (b.rank() != 2 || !b.is_static() || g.type(n.inputs[0]).shape.rank() < 2) return false;
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      if (!weights_[static_cast<size_t>(n.inputs[i].node)]) return false;
      if (i > 1 && !(g.type(n.inputs[i]).shape == Shape{b[1]})) return false;
    }
    return true;
  }

  void join(const std::vector<int32_t>& members) {
    const Graph& g = rewriter_.source();
    const Node& first = g.node(members[0]);
    std::vector<ValueId> inputs = {rewriter_.mapped(first.inputs[0])};
    for (size_t i = 1; i < first.inputs.size(); ++i) {
      auto side_by_side = std::make_shared<Concat>();
      side_by_side->axis = i == 1 ? 1 : 0;
      std::vector<ValueId> parts;
      for (int32_t m : members) parts.push_back(rewriter_.mapped(g.node(m).inputs[i]));
      inputs.push_back(rewriter_.target().add(side_by_side, std::move(parts), first.name + ".joined_weight"));
    }
    const ValueId joint = rewriter_.target().add(first.op, std::move(inputs), first.name + ".joined");
    int64_t start = 0;
    for (int32_t m : members) {
      auto part = std::make_shared<Slice>();
      part->axis = -1;
      part->start = start;
      part->length = g.node(m).outputs[0].shape[g.node(m).outputs[0].shape.rank() - 1];
      start += part->length.value();
      rewriter_.replace(m, part, {joint});
    }
  }

  Rewriter rewriter_;
  std::vector<bool> weights_;
  std::map<Key, std::vector<int32_t>> groups_;
};

}  // namespace

Graph join_matmuls(const Graph& graph) { return Joiner(graph).run(); }

}  // namespace rlx
