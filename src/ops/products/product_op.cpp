#include "ops/products/product_op.h"
#include "rlx/graph.h"

#include <algorithm>

namespace rlx {

Expr ProductOp::typed_epilogue(std::span<const DType> inputs) const {
  const size_t own = std::min(static_cast<size_t>(own_inputs()), inputs.size());
  std::vector<DType> types = {product_type(inputs.first(own))};
  types.insert(types.end(), inputs.begin() + static_cast<int64_t>(own), inputs.end());
  return typed(epilogue, std::move(types));
}

DType ProductOp::epilogue_type(const InferArgs& in, const Shape& result) const {
  std::vector<DType> types;
  for (int64_t i = 0; i < in.count(); ++i) types.push_back(in.has(i) ? in.dtype(i) : DType::f32);
  for (int64_t i = own_inputs(); i < in.count(); ++i) {
    if (!(broadcast(result, in.shape(i), in.op()) == result)) {
      fail("{}: the epilogue's input {} has the shape {}, which does not broadcast to the result {}", in.op(),
           i, in.shape(i).text(), result.text());
    }
  }
  if (in.count() > own_inputs() && epilogue.empty())
    fail("{}: takes {} inputs when it has no epilogue, not {}", in.op(), own_inputs(), in.count());
  return typed_epilogue(types).result_type();
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
  const auto value_type = [&](ValueId v) { return value_dtype(graph.type(v).dtype); };
  while (graph.producer(value).op->has(Trait::view)) {
    const ValueId source = graph.producer(value).inputs[0];
    if (value_type(source) != value_type(value)) return false;  // it is decoded
    value = source;
  }
  return is_encoded(graph.type(value).dtype);
}

}  // namespace rlx
