// Walking a graph on the CPU, computing nodes in some other way than the plain reference.
#pragma once

#include "ir/reference.h"

namespace rlx {

using NodeEvaluator =
    std::function<std::vector<RefTensor>(const Node& node, const std::vector<const RefTensor*>& inputs)>;

// Like run_reference, which is this with run_reference for each node; values of leaves are taken as they are.
std::map<std::string, RefTensor> evaluate(const Graph& graph, const NamedTensors& leaves,
                                          const NodeEvaluator& evaluate_node,
                                          const ReferenceProgress& progress = {});

}  // namespace rlx
