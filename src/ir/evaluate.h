// Walking a graph on the CPU, computing nodes in some other way than the plain reference.
#pragma once

#include "ir/reference.h"

namespace rlx {

using NodeEvaluator =
    std::function<std::vector<RefTensor>(const Node& node, const std::vector<const RefTensor*>& inputs)>;

// run_reference(graph) with `evaluate_node` in place of run_reference(node). Inputs, params and states are
// taken as they are.
std::map<std::string, RefTensor> evaluate(const Graph& graph, const NamedTensors& leaves,
                                          const NodeEvaluator& evaluate_node,
                                          const ReferenceProgress& progress = {});

}  // namespace rlx
