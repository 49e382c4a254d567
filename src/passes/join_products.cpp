// Products of one input with several weights (q, k and v; gate and up) become one product with the weights
// concatenated. The weights are joined in the load phase; each former result is a view of the joint one,
// which its readers read in place.
#include <algorithm>

#include "base/format.h"
#include "ir/load_phase.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/concat.h"
#include "ops/rearrange/slice.h"
#include "ops/rearrange/transpose.h"
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
  // What products must have in common to be joined: x, the op and its attributes, and the types of the other
  // inputs but for the axis along which they are concatenated.
  std::string key_of(const Node& n) const {
    const Graph& g = rewriter_.source();
    std::string key = formatted("%{}:{} {}", n.inputs[0].node, n.inputs[0].output, n.op->name());
    for (const auto& [name, value] : attributes(*n.op))
      key += formatted(" {}={}", name, attribute_text(value));
    const int64_t axis = join_of(n)->weight_axis;
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      if (n.inputs[i].is_absent()) {
        key += " none";
        continue;
      }
      TensorType type = g.type(n.inputs[i]);
      type.shape[i == 1 ? axis : 0] = 0;
      key += " " + type.text();
    }
    return key;
  }

  std::optional<ProductOp::Join> join_of(const Node& n) const {
    const ProductOp* const product = as_product(*n.op);
    return product ? product->join(input_types(rewriter_.source(), n)) : std::nullopt;
  }

  bool candidate(int32_t id) const {
    const Node& n = rewriter_.source().node(id);
    if (weights_[static_cast<size_t>(id)] || !join_of(n) || has_encoded_root(rewriter_.source(), n.inputs[1]))
      return false;
    return std::ranges::all_of(n.inputs.begin() + 1, n.inputs.end(), [&](ValueId v) {
      return v.is_absent() || weights_[static_cast<size_t>(v.node)];
    });
  }

  void join(const std::vector<int32_t>& members) {
    const Graph& g = rewriter_.source();
    const Node& first = g.node(members[0]);
    std::vector<ValueId> inputs = {rewriter_.mapped(first.inputs[0])};
    const ProductOp::Join how = *join_of(first);
    for (size_t i = 1; i < first.inputs.size(); ++i) {
      if (first.inputs[i].is_absent()) {
        inputs.emplace_back();
        continue;
      }
      std::vector<ValueId> parts;
      for (int32_t m : members) parts.push_back(g.node(m).inputs[i]);
      inputs.push_back(
          concatenated(std::move(parts), i == 1 ? how.weight_axis : 0, first.name + ".joined_weight"));
    }
    const ValueId joint = rewriter_.target().add(first.op, std::move(inputs), first.name + ".joined");
    int64_t start = 0;
    for (int32_t m : members) {
      auto part = std::make_shared<Slice>();
      part->axis = how.result_axis;
      part->start = start;
      const Shape& shape = g.node(m).outputs[0].shape;
      part->length = shape[normal_axis(how.result_axis, shape.rank())];
      start += part->length.value();
      rewriter_.replace(m, part, {joint});
    }
  }

  // Weights that are all transposed in the same way are concatenated as they lie in memory, so that they stay
  // as they are if they lie there one after the other.
  ValueId concatenated(std::vector<ValueId> parts, int64_t axis, const std::string& name) {
    const Graph& g = rewriter_.source();
    const Node& first = g.producer(parts[0]);
    const auto* transpose = op_cast<Transpose>(*first.op);
    const bool alike = transpose && std::ranges::all_of(parts, [&](ValueId v) {
                         const Node& n = g.producer(v);
                         return op_cast<Transpose>(*n.op) && same(*n.op, *first.op);
                       });
    if (alike) {
      const int64_t rank = g.type(parts[0]).shape.rank();
      axis = transpose->order(rank)[static_cast<size_t>(normal_axis(axis, rank))];
      for (ValueId& v : parts) v = g.producer(v).inputs[0];
    }
    for (ValueId& v : parts) v = rewriter_.mapped(v);
    auto side_by_side = std::make_shared<Concat>();
    side_by_side->axis = axis;
    const ValueId joined = rewriter_.target().add(side_by_side, std::move(parts), name);
    return alike ? rewriter_.target().add(first.op, {joined}, name + "_order") : joined;
  }

  Rewriter rewriter_;
  std::vector<bool> weights_;
  std::map<std::string, std::vector<int32_t>> groups_;
};

}  // namespace

Graph join_products(const Graph& graph) { return Joiner(graph).run(); }

}  // namespace rlx
