// The output types of a node.
#pragma once

#include <vector>

#include "rlx/graph.h"

namespace rlx {

// The most axes of a tensor, as in NumPy. More is a mistake, and every node would carry it along.
inline constexpr int64_t kMaxRank = 64;

// An error where the op does not take these inputs, or no tensor can have the type of the result.
std::vector<TensorType> infer_outputs(const Graph& graph, const Op& op, const std::vector<ValueId>& inputs);

}  // namespace rlx
