#include "ops/machinery/outputs.h"

#include "rlx/graph.h"

namespace rlx {

Value output_beside(const Value& first, size_t index) {
  Graph& graph = first.graph();
  const int32_t node = first.id().node;
  return index < graph.node(node).outputs.size() ? graph.value({node, static_cast<int32_t>(index)}) : Value();
}

}  // namespace rlx
