// Small random graphs over many ops, for comparing optimised against plain and device against reference.
#pragma once

#include "ir/op.h"
#include "rlx/graph.h"

namespace rlx::testing {

struct RandomGraph {
  Graph graph;
  NamedTensors leaves;  // inputs and params
};

struct RandomGraphOptions {
  bool control_flow = false;  // also branches, loops and sizes that only the run knows
};

// Functions are smooth and values stay small, so that errors stay proportional to the number of nodes. The
// names of inputs begin with "in", those of params do not; params may be in bodies only.
RandomGraph random_graph(uint32_t seed, const RandomGraphOptions& options = {});

// What 32-bit arithmetic may lose over a graph of that many nodes with values up to `scale`.
Tolerance graph_tolerance(const Graph& graph, double scale);

}  // namespace rlx::testing
