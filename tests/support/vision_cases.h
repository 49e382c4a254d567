// Pools and norms with the results that PyTorch gives (tests/fixtures/make_vision.py).
#pragma once

#include <string>
#include <vector>

#include "rlx/graph.h"

namespace rlx::testing {

struct VisionCase {
  std::string name;
  Graph graph;  // one node, y
  NamedTensors inputs;
  std::vector<Tensor> results;  // the outputs y and, if it has two, z
};

std::vector<VisionCase> vision_cases();

}  // namespace rlx::testing
