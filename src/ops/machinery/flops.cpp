#include "ops/machinery/flops.h"

#include <algorithm>
#include <vector>

#include "ir/op.h"
#include "ops/products/product_op.h"
#include "rlx/graph.h"

namespace rlx {

double node_flops(const Graph& graph, const Node& node) {
  const std::vector<TensorType> inputs = input_types(graph, node);
  const auto is_static = [](const TensorType& type) { return type.shape.is_static(); };
  if (!std::ranges::all_of(inputs, is_static) || !std::ranges::all_of(node.outputs, is_static)) return 0;
  return node.op->flops(inputs, node.outputs);
}

double flops_of_sums(double terms, std::span<const TensorType> outputs) {
  double results = 0;
  for (const TensorType& out : outputs) results += static_cast<double>(out.shape.elements().value());
  return 2 * terms * results;
}

}  // namespace rlx
