// Computes what depends on constants alone, with the reference. Large results stay as they are: the load
// phase makes them once, on the device.
#include <algorithm>
#include <ranges>

#include "ir/reference.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

bool has_symbols(const Op& op) {
  std::set<std::string> symbols;
  collect_symbols(op, symbols);
  return !symbols.empty();
}

// A fill is one value in memory whatever its size, but here all its elements would be looked at.
constexpr int64_t kMaxRead = 1 << 22;

// An i64 of more than 32 bits is refused when it is uploaded, and must also be refused where it would be
// folded.
bool fits_device(const Tensor& t) {
  if (t.dtype() != DType::i64) return true;
  const auto fits = [&](int64_t i) { return static_cast<int32_t>(t.integer(i)) == t.integer(i); };
  const int64_t count = t.is_uniform() ? std::min<int64_t>(t.elements(), 1) : t.elements();
  return std::ranges::all_of(std::views::iota(int64_t{0}, count), fits);
}

}  // namespace

Graph fold_constants(const Graph& graph, int64_t max_elements) {
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const auto constant = [&](ValueId v) {
      return op_cast<Constant>(*rewriter.target().producer(rewriter.mapped(v)).op);
    };
    const auto known = [&](ValueId v) {
      return v.is_absent() || (constant(v) && constant(v)->value.elements() <= kMaxRead);
    };
    const auto small = [&](const TensorType& t) {
      return t.shape.is_static() && t.shape.elements().value() <= max_elements;
    };
    const auto on_device = [&](ValueId v) { return v.is_absent() || fits_device(constant(v)->value); };
    // A view of an encoded constant costs nothing, and consumers may read the blocks through it.
    const auto encoded = [&](ValueId v) { return !v.is_absent() && is_encoded(graph.type(v).dtype); };
    const bool encoded_view = n.op->has(Trait::view) && std::ranges::any_of(n.inputs, encoded);
    // The reference computes in double, which a NaN does not leave with all its bits.
    const bool reinterprets = n.op->has(Trait::view) && graph.type(n.inputs[0]).dtype != n.outputs[0].dtype;
    const bool foldable = !n.op->is_leaf() && !encoded_view && !reinterprets &&
                          std::ranges::all_of(n.inputs, known) && n.op->subgraphs().empty() &&
                          std::ranges::all_of(n.outputs, small) && !has_symbols(*n.op) &&
                          std::ranges::all_of(n.inputs, on_device);
    if (!foldable) {
      rewriter.copy(id);
      continue;
    }
    std::vector<RefTensor> values;
    for (ValueId v : n.inputs)
      values.push_back(v.is_absent() ? RefTensor{} : RefTensor::from(constant(v)->value));
    std::vector<const RefTensor*> inputs;
    for (size_t i = 0; i < values.size(); ++i)
      inputs.push_back(n.inputs[i].is_absent() ? nullptr : &values[i]);
    std::vector<Tensor> outputs;
    for (const RefTensor& out : run_reference(n, inputs)) outputs.push_back(out.to_tensor());
    // The device reports it.
    if (!std::ranges::all_of(outputs, fits_device)) {
      rewriter.copy(id);
      continue;
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      auto op = std::make_shared<Constant>();
      op->value = std::move(outputs[o]);
      const std::string name = o == 0 ? n.name : n.name + "." + std::to_string(o);
      rewriter.map({id, static_cast<int32_t>(o)}, rewriter.target().add(op, {}, name));
    }
  }
  return rewriter.finish();
}

}  // namespace rlx
