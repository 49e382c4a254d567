// Walking a graph on the CPU, computing nodes in some other way than the plain reference.
#pragma once

#include "ir/reference.h"

namespace rlx {

// run_reference(graph) with `evaluate_node` in place of run_reference(node), also for the nodes in bodies;
// not for the nodes that own them. Inputs, params and states are taken as they are.
std::map<std::string, RefTensor> evaluate(const Graph& graph, const NamedTensors& leaves,
                                          const NodeEvaluator& evaluate_node,
                                          const ReferenceProgress& progress = {});

}  // namespace rlx
