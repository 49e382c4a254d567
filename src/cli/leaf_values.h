// Values for the inputs and params of a graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "import/onnx/element_type.h"
#include "rlx/graph.h"

namespace rlx::cli {

struct LeafValues {
  NamedTensors inputs;
  NamedTensors params;
  std::vector<std::string> random;  // the names of those that were not given
  NamedTensors all() const;
};

// Those that are given, the others random; `graph` has no symbols. The same seed yields the same numbers on
// every machine. `types`: of inputs whose values are fewer than those of the type that carries them.
LeafValues make_leaf_values(const Graph& graph, uint64_t seed, const NamedTensors& given = {},
                            const std::map<std::string, onnx::ElementType>& types = {});

}  // namespace rlx::cli
