#include "ops/flops.h"

#include <algorithm>

#include "ops/attention.h"
#include "ops/product_op.h"

namespace rlx {
namespace {

double elements(const TensorType& type) { return static_cast<double>(type.shape.elements().value()); }

bool is_static(const TensorType& type) { return type.shape.is_static(); }

// Each element of the result is a sum of products, of which the tolerance knows the length.
double sums_of_products(const Node& node, std::span<const TensorType> inputs) {
  double results = 0;  // several outputs are cut from one result
  for (const TensorType& out : node.outputs) results += elements(out);
  return 2 * results * node.op->tolerance(inputs).terms;
}

// Each element of x is multiplied by the part of the weight [channels, filters, kernel...] of its channel.
double transposed_conv(std::span<const TensorType> inputs) {
  const auto channels = static_cast<double>(inputs[1].shape[0].value());
  return channels == 0 ? 0 : 2 * elements(inputs[0]) * elements(inputs[1]) / channels;
}

// Each element of q and of the result is multiplied once for each key.
double attention(const Attention& op, const Node& node, std::span<const TensorType> inputs) {
  Dim keys = inputs[1].shape[op.layout == AttentionLayout::bhsd ? 2 : 1];
  if (inputs.size() > Attention::kPages && inputs[Attention::kPages].shape.rank() == 2)
    keys *= inputs[Attention::kPages].shape[1];
  return 2 * (elements(inputs[0]) + elements(node.outputs[0])) * static_cast<double>(keys.value());
}

}  // namespace

double node_flops(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name();
  const auto* const attends = dynamic_cast<const Attention*>(node.op.get());
  if (!attends && !as_product(*node.op) && op != "grouped_matmul" && op != "dequant_grouped_matmul") return 0;
  const std::vector<TensorType> inputs = input_types(graph, node);
  if (!std::ranges::all_of(inputs, is_static) || !std::ranges::all_of(node.outputs, is_static)) return 0;
  if (attends) return attention(*attends, node, inputs);
  return op == "conv_transpose" ? transposed_conv(inputs) : sums_of_products(node, inputs);
}

}  // namespace rlx
