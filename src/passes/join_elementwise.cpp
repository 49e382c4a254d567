// Independent element-wise nodes of the same small shape become one dispatch: what they compute takes less
// time than starting it. Larger ones fill the device by themselves.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "ir/load_phase.h"
#include "ir/states.h"
#include "ops/elementwise/batch_elementwise.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

constexpr int64_t kFewElements = 16384;
// Fewer do not repay a shader of their own, where each alone may have one that other nodes use too.
constexpr size_t kLeastNodes = 4;

class Joiner {
 public:
  Joiner(const Graph& graph, int64_t max_inputs)
      : graph_(graph),
        rewriter_(graph),
        states_(graph),
        weights_(in_load_phase(graph)),
        users_(uses(graph)),
        max_bindings_(max_inputs + 1) {}

  Graph run() {
    find();
    std::vector<int32_t> joint_of(static_cast<size_t>(graph_.size()), -1);
    for (size_t j = 0; j < joints_.size(); ++j) {
      if (joints_[j].nodes.size() < kLeastNodes) continue;
      for (const int32_t id : joints_[j].nodes) joint_of[static_cast<size_t>(id)] = static_cast<int32_t>(j);
    }
    for (int32_t id = 0; id < graph_.size(); ++id) {
      const int32_t j = joint_of[static_cast<size_t>(id)];
      if (j < 0) {
        rewriter_.copy(id);
      } else if (joints_[static_cast<size_t>(j)].nodes.back() == id) {
        emit(joints_[static_cast<size_t>(j)]);
      }
    }
    return rewriter_.finish();
  }

 private:
  // Nodes that are computed where the last of them is: none is read before that.
  struct Joint {
    std::vector<int32_t> nodes;
    std::set<ValueId> inputs;
    int64_t cost = 0;
    int32_t first_use = INT32_MAX;
  };

  Expr expr(int32_t id) const {
    const Node& n = graph_.node(id);
    std::vector<DType> types;
    for (const ValueId v : n.inputs) types.push_back(graph_.type(v).dtype);
    return dynamic_cast<const ElementwiseOp&>(*n.op).expr(types);
  }

  bool is_candidate(int32_t id) const {
    const Node& n = graph_.node(id);
    if (!dynamic_cast<const ElementwiseOp*>(n.op.get()) || weights_[static_cast<size_t>(id)]) return false;
    const TensorType& type = n.outputs[0];
    if (type.dtype != DType::f32 || !type.shape.is_static() || type.shape.elements().value() > kFewElements)
      return false;
    return !expr(id).may_overflow() && std::ranges::none_of(n.inputs, &ValueId::is_absent);
  }

  int32_t first_use(int32_t id) const {
    int32_t first = INT32_MAX;
    const auto found = users_.find({id, 0});
    if (found == users_.end()) return first;
    for (const int32_t user : found->second) {
      if (user >= 0) first = std::min(first, user);
    }
    return first;
  }

  // Puts each candidate into the last joint of its shape, or begins a new one.
  void find() {
    for (int32_t id = 0; id < graph_.size(); ++id) {
      if (!is_candidate(id)) continue;
      const auto same_shape = [&](const Joint& j) {
        return graph_.node(j.nodes[0]).outputs[0].shape == graph_.node(id).outputs[0].shape;
      };
      const auto last = std::find_if(joints_.rbegin(), joints_.rend(), same_shape);
      if (last == joints_.rend() || !add(*last, id)) {
        joints_.emplace_back();
        add(joints_.back(), id);
      }
    }
  }

  bool add(Joint& j, int32_t id) {
    std::set<ValueId> inputs = j.inputs;
    inputs.insert(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const int64_t cost = j.cost + expr(id).cost();
    if (!j.nodes.empty()) {
      if (id >= j.first_use || cost > kRegionBudget) return false;
      if (std::ssize(inputs) + std::ssize(j.nodes) + 1 > max_bindings_) return false;
      const auto readable = [&](ValueId v) { return states_.readable_at(v, id); };
      if (!std::ranges::all_of(inputs, readable)) return false;
    }
    j.nodes.push_back(id);
    j.inputs = std::move(inputs);
    j.cost = cost;
    j.first_use = std::min(j.first_use, first_use(id));
    return true;
  }

  void emit(const Joint& j) {
    auto op = std::make_shared<BatchElementwise>();
    std::vector<ValueId> inputs;
    for (const int32_t id : j.nodes) {
      const Node& n = graph_.node(id);
      op->exprs.push_back(expr(id).untyped().text());
      op->counts.push_back(std::ssize(n.inputs));
      for (const ValueId v : n.inputs) inputs.push_back(rewriter_.mapped(v));
    }
    const ValueId made = rewriter_.target().add(op, std::move(inputs), graph_.node(j.nodes.back()).name);
    for (size_t e = 0; e < j.nodes.size(); ++e)
      rewriter_.map({j.nodes[e], 0}, {made.node, static_cast<int32_t>(e)});
  }

  const Graph& graph_;
  Rewriter rewriter_;
  StateVersions states_;
  std::vector<bool> weights_;
  std::map<ValueId, std::vector<int32_t>> users_;
  int64_t max_bindings_;
  std::vector<Joint> joints_;
};

}  // namespace

Graph join_elementwise(const Graph& graph, int64_t max_inputs) { return Joiner(graph, max_inputs).run(); }

}  // namespace rlx
