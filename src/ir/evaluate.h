// Walking a graph on the CPU with another way to compute a node than the plain reference.
#pragma once

#include "ir/reference.h"

namespace rlx {

using NodeEvaluator =
    std::function<std::vector<RefTensor>(const Node& node, const std::vector<const RefTensor*>& inputs)>;

// As run_reference, which it is with run_reference for each node; the values of leaves are taken as they are.
std::map<std::string, RefTensor> evaluate(const Graph& graph, const NamedTensors& leaves,
                                          const NodeEvaluator& evaluate_node,
                                          const ReferenceProgress& progress = {});

}  // namespace rlx
