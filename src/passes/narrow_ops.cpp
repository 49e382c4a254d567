// cast(op(cast(x))), where the inner cast makes f32 of 16-bit floats and the outer one goes back, becomes the
// op of the 16-bit floats, if that rounds nothing but its result: softmax in f32, as transformers have it,
// and single functions that a converter of models has kept in f32.
#include <optional>
#include <vector>

#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "passes/casts.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Narrower {
 public:
  explicit Narrower(const Graph& graph)
      : graph_(graph), users_(uses(graph)), states_(graph), rewriter_(graph) {}

  Graph run() {
    for (int32_t id = 0; id < graph_.size(); ++id) {
      if (rewriter_.is_mapped({id, 0})) continue;
      const std::optional<int32_t> cast = outer_cast(id);
      if (!cast || !all_narrow(id, graph_.node(*cast).outputs[0].dtype)) {
        rewriter_.copy(id);
        continue;
      }
      const Node& n = graph_.node(id);
      std::vector<ValueId> inputs;
      for (const ValueId v : n.inputs) inputs.push_back(narrow(v, graph_.node(*cast).outputs[0].dtype));
      rewriter_.map({*cast, 0}, rewriter_.target().add(n.op, std::move(inputs), n.name));
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  // The cast to 16-bit floats that alone reads the node.
  std::optional<int32_t> outer_cast(int32_t id) const {
    const Node& n = graph_.node(id);
    if (n.outputs.size() != 1 || n.outputs[0].dtype != DType::f32) return std::nullopt;
    const auto readers = users_.find({id, 0});
    if (readers == users_.end() || readers->second.size() != 1 || readers->second[0] < 0) return std::nullopt;
    const Node& reader = graph_.node(readers->second[0]);
    const bool narrows = op_cast<Cast>(*reader.op) && is_16_bit_float(reader.outputs[0].dtype);
    return narrows ? std::optional(readers->second[0]) : std::nullopt;
  }

  // Whether the op can read all that gives its result the type as 16-bit floats.
  bool all_narrow(int32_t id, DType type) const {
    const Node& n = graph_.node(id);
    const auto is_cast = [&](ValueId v) {
      const auto x = widened_source(graph_, v);
      return x && graph_.type(*x).dtype == type && states_.readable_at(*x, id);
    };
    if (n.op->has(Trait::rounds_once)) return is_cast(n.inputs[0]);
    if (!op_cast<Elementwise>(*n.op)) return false;
    bool any = false;
    for (const ValueId v : n.inputs) {
      if (graph_.type(v).dtype != DType::f32) continue;
      any |= is_cast(v);
      if (!is_cast(v) && !is_number_of(v, type)) return false;
    }
    return any;
  }

  bool is_number_of(ValueId v, DType type) const {
    const auto number = scalar_constant(graph_, v);
    return number && graph_.type(v).shape.rank() == 0 &&
           Tensor::from_doubles(type, {}, std::vector{*number}).real(0) == *number;
  }

  // An input in the new graph. Those that do not give the result its type may have any float type.
  ValueId narrow(ValueId v, DType type) {
    if (v.is_absent() || graph_.type(v).dtype != DType::f32) return rewriter_.mapped(v);
    if (is_number_of(v, type)) return rewriter_.target().scalar(type, *scalar_constant(graph_, v)).id();
    return without_widening(rewriter_, v);
  }

  const Graph& graph_;
  const std::map<ValueId, std::vector<int32_t>> users_;
  const StateVersions states_;
  Rewriter rewriter_;
};

}  // namespace

Graph narrow_ops(const Graph& graph) { return Narrower(graph).run(); }

}  // namespace rlx
