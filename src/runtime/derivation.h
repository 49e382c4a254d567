// How a tensor of a load phase is made, as a text: two that have the same are the same tensor.
#pragma once

#include <string>

#include "rlx/graph.h"

namespace rlx {

// Of a value in a graph without branches and loops. "" where that cannot be said shortly: it depends on a
// large constant.
std::string derivation(const Graph& graph, ValueId value);

}  // namespace rlx
