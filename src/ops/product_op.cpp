#include "ops/product_op.h"

#include <algorithm>

namespace rlx {

Expr ProductOp::typed_epilogue(std::span<const DType> inputs) const {
  const size_t own = std::min(static_cast<size_t>(own_inputs()), inputs.size());
  std::vector<DType> types = {product_type(inputs.first(own))};
  types.insert(types.end(), inputs.begin() + static_cast<int64_t>(own), inputs.end());
  return epilogue.typed(std::move(types));
}

std::vector<DType> input_dtypes(std::span<const TensorType> inputs) {
  std::vector<DType> types;
  for (const TensorType& t : inputs) types.push_back(t.dtype);
  return types;
}

std::vector<TensorType> input_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (const ValueId v : node.inputs) types.push_back(v.is_absent() ? TensorType{} : graph.type(v));
  return types;
}

bool has_encoded_root(const Graph& graph, ValueId value) {
  while (graph.producer(value).op->has(Trait::view)) value = graph.producer(value).inputs[0];
  return is_encoded(graph.type(value).dtype);
}

}  // namespace rlx
