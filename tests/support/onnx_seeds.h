// Small models of every kind that the importer knows: what the fuzzer begins with (tests/fuzz), and what
// tests cut short and distort.
#pragma once

#include <string>
#include <vector>

#include "tests/support/onnx_model.h"

namespace rlx::testing {

struct OnnxSeed {
  std::string name;
  std::vector<std::byte> bytes;
};

std::vector<OnnxSeed> onnx_seeds();

}  // namespace rlx::testing
