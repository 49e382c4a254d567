// Whether a graph can be planned, without a device.
#pragma once

#include "rlx/graph.h"

namespace rlx {

// An error that says why the graph cannot be planned, on a device of any size; where symbols have no value
// here, with none of some.
void check_plan(const Graph& source, const SymbolValues& symbols);

}  // namespace rlx
