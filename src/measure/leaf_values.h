// Values for the inputs and params of a graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "import/onnx/element_type.h"
#include "rlx/graph.h"

namespace rlx::measure {

struct LeafValues {
  NamedTensors inputs;
  NamedTensors params;
  std::vector<std::string> random;  // the names of those that were not given
  NamedTensors all() const;
};

// Those that are given, the others random; `graph` has no symbols. The same seed yields the same numbers on
// every machine. `types`: of inputs whose values are fewer than those of the type that carries them. More
// random values than anybody would wait for are ErrorKind::invalid_argument.
LeafValues make_leaf_values(const Graph& graph, uint64_t seed, const NamedTensors& given = {},
                            const onnx::CarriedTypes& types = {});

}  // namespace rlx::measure
