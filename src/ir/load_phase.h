// What is computed before runs instead of in each of them.
#pragma once

#include <vector>

#include "rlx/graph.h"

namespace rlx {

// For each node, whether it depends on params and constants alone, and on no symbol: it then runs once per
// change of params. Not for branches and loops, nor for params that the graph itself writes.
std::vector<bool> in_load_phase(const Graph& graph);

}  // namespace rlx
