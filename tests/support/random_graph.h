// Small random graphs over many ops, for comparing optimised against plain and device against reference.
#pragma once

#include "ir/op.h"
#include "rlx/graph.h"

namespace rlx::testing {

struct RandomGraph {
  Graph graph;
  NamedTensors leaves;  // inputs and params
};

// Functions are smooth and values stay small, so that errors stay proportional to the number of nodes.
RandomGraph random_graph(uint32_t seed);

// What 32-bit arithmetic may lose over a graph of that many nodes with values up to `scale`.
Tolerance graph_tolerance(const Graph& graph, double scale);

}  // namespace rlx::testing
