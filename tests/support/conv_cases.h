// Convolutions that PyTorch has computed (tests/fixtures/make_conv.py).
#pragma once

#include <string>
#include <vector>

#include "rlx/graph.h"
#include "rlx/tensor.h"

namespace rlx::testing {

struct ConvCase {
  std::string name;
  Graph graph;  // inputs x, w and, if the case has them, bias and extra; output y
  NamedTensors inputs;
  Tensor y;  // in f32, the type of all inputs
};

std::vector<ConvCase> conv_cases();

}  // namespace rlx::testing
