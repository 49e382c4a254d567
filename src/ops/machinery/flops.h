// How much arithmetic a node asks for.
#pragma once

#include <span>

#include "rlx/value.h"

namespace rlx {

struct Node;

// What Op::flops says, whatever kernel computes the node; masks save nothing. 0 where sizes are not known.
double node_flops(const Graph& graph, const Node& node);

// For Op::flops: where each element of the outputs is a sum of `terms` products. Several outputs are cut from
// one result.
double flops_of_sums(double terms, std::span<const TensorType> outputs);

}  // namespace rlx
