// Cases that the scripts in tests/fixtures make: calls of ops, with operands and the results of another
// program.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/tensor.h"

namespace rlx::testing {

struct FixtureCase {
  std::string name;
  std::string call;     // "softmax(%x) {axis=0}", or "@function ..." that only its own test understands
  NamedTensors inputs;  // by their names in the call
  std::vector<Tensor> results;
  Graph graph;  // the call as node y, with outputs y0, y1 ..; empty for a function
};

// All of tests/fixtures/NAME.safetensors.
std::vector<FixtureCase> fixture_cases(const std::string& name);

// What the op promises, and one more rounding: that of the results in the file.
Tolerance rounded_tolerance(const FixtureCase& c);

// The outputs on a device, or those of the reference if there is none.
NamedTensors run_or_reference(const Graph& graph, const NamedTensors& inputs, const Device* device,
                              const CompileOptions& options = {});

}  // namespace rlx::testing
