// The caches of a decoder: an input past.. and an output present.., which is the input with new entries
// behind it. As a state they stay on the device from run to run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlx/graph.h"
#include "rlx/onnx.h"

namespace rlx::onnx {

// The graph with a state of this capacity in the place of each pair, and what became what. An output that is
// not its input with entries behind it is an error.
std::pair<Graph, std::vector<Cache>> caches_as_states(const Graph& graph, int64_t capacity);

}  // namespace rlx::onnx
