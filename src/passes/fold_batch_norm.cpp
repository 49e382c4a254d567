// A batch norm behind a product with a weight becomes part of the weight: its factors multiply the filters
// (or columns) once, in the load phase, and its shifts are added to the bias. Only in f32, where the filters
// keep their precision, and only if nothing else reads the product.
#include <algorithm>

#include "ir/load_phase.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/convolution/conv.h"
#include "ops/linear_algebra/matmul.h"
#include "ops/normalization/batch_norm.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "rlx/ops/elementwise.h"

namespace rlx {
namespace {

class Folder {
 public:
  explicit Folder(const Graph& graph)
      : graph_(graph), rewriter_(graph), uses_(uses(graph)), weights_(in_load_phase(graph)), states_(graph) {}

  Graph run() {
    for (int32_t id = 0; id < graph_.size(); ++id) {
      const Node& n = graph_.node(id);
      const auto* norm = op_cast<BatchNorm>(*n.op);
      if (norm && fold(id, *norm, n)) continue;
      std::vector<ValueId> inputs;
      for (ValueId v : n.inputs) inputs.push_back(rewriter_.mapped(v));
      rewriter_.replace(id, map_subgraphs(n.op, fold_batch_norm), std::move(inputs));
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  bool loaded(ValueId v) const { return v.is_absent() || weights_[static_cast<size_t>(v.node)]; }

  // The axis of the weight that the entries of the norm belong to; nothing if there is none.
  std::optional<int64_t> weight_axis(const BatchNorm& norm, const Node& product) const {
    const int64_t rank = product.outputs[0].shape.rank();
    const int64_t axis = normal_axis(norm.axis, rank);
    if (const auto* conv = op_cast<Conv>(*product.op)) {
      const bool last = conv->layout == ConvLayout::channels_last;
      return axis == (last ? rank - 1 : 1) ? std::optional<int64_t>(0) : std::nullopt;
    }
    // The columns of a plain matrix.
    const bool plain = op_cast<MatMul>(*product.op) && graph_.type(product.inputs[1]).shape.rank() == 2;
    return plain && axis == rank - 1 ? std::optional<int64_t>(1) : std::nullopt;
  }

  bool fold(int32_t id, const BatchNorm& norm, const Node& n) {
    const Node& product = graph_.producer(n.inputs[0]);
    const ProductOp* const op = as_product(*product.op);
    if (!op || !op->epilogue.empty() || uses_.at(n.inputs[0]).size() != 1) return false;
    const auto axis = weight_axis(norm, product);
    const auto is_f32 = [&](ValueId v) { return v.is_absent() || graph_.type(v).dtype == DType::f32; };
    const bool weighted =
        std::all_of(product.inputs.begin() + 1, product.inputs.end(),
                    [&](ValueId v) { return loaded(v) && is_f32(v); }) &&
        std::all_of(n.inputs.begin() + 1, n.inputs.end(), [&](ValueId v) { return loaded(v); });
    if (!axis || !weighted || !is_f32(product.inputs[0]) || has_encoded_root(graph_, product.inputs[1]))
      return false;
    // The product now reads x later, perhaps after a write.
    if (!states_.readable_at(product.inputs[0], id)) return false;
    replace(id, norm, n, product, *axis);
    return true;
  }

  Value value(ValueId v) {
    const ValueId mapped = rewriter_.mapped(v);
    return mapped.is_absent() ? Value() : rewriter_.target().value(mapped);
  }

  void replace(int32_t id, const BatchNorm& norm, const Node& n, const Node& product, int64_t axis) {
    Graph& g = rewriter_.target();
    ExpandArgs args{g, {}};
    for (ValueId v : n.inputs) args.inputs.push_back(value(v));
    const BatchNorm::Terms t = norm.terms(args);
    const Value w = value(product.inputs[1]);
    const Value folded = (w * along_axis(t.factor, axis, w.shape().rank()))
                             .named(graph_.producer(product.inputs[1]).name + ".folded");
    std::vector<ValueId> inputs = {rewriter_.mapped(product.inputs[0]), folded.id()};
    if (!op_cast<Conv>(*product.op)) {
      const Value y = g.value(g.add(product.op, inputs, product.name)) + t.shift;
      rewriter_.map({id, 0}, y.named(n.name).id());
      return;
    }
    const Value bias = product.inputs.size() > 2 ? value(product.inputs[2]) : Value();
    inputs.push_back((bias ? bias * t.factor + t.shift : t.shift).id());
    rewriter_.replace(id, product.op, std::move(inputs));
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<ValueId, std::vector<int32_t>> uses_;
  std::vector<bool> weights_;
  StateVersions states_;
};

}  // namespace

Graph fold_batch_norm(const Graph& graph) { return Folder(graph).run(); }

}  // namespace rlx
