// How much arithmetic a node asks for.
#pragma once

#include "rlx/graph.h"

namespace rlx {

// Of the multiplications and additions of a product or an attention, whatever kernel computes them; masks
// save nothing. 0 for ops whose time is that of memory, and where sizes are not known.
double node_flops(const Graph& graph, const Node& node);

}  // namespace rlx
