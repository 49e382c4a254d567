// A state shows its old contents until a node overwrites it. A pass that moves a read to a later place must
// not move it past that node.
#pragma once

#include <set>

#include "rlx/graph.h"

namespace rlx {

// The values that show a state, directly or through views, which some node overwrites.
std::set<ValueId> overwritten(const Graph& graph);

}  // namespace rlx
