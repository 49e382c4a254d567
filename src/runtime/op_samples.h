// One-op graphs made from the samples that ops declare, with random inputs.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "rlx/compile.h"

namespace rlx {

// How the inputs reach the op.
enum class Reach {
  direct,
  transposed,  // each input of rank 2 or more is a transposed view
  narrowed,    // each input is a slice of a larger one, at an odd offset
};

struct Sample {
  std::string text;  // graph text
  Graph graph;
  NamedTensors inputs;
  NamedTensors states;  // what they hold before the run
};

// From "softmax(T[4,17] in 0..9) {axis=1}". T becomes `dtype`; an argument "state T[4,17]" is a state instead
// of an input.
Sample make_sample(const OpInfo& info, const std::string& sample, DType dtype, Reach reach, uint32_t seed);
std::vector<DType> types_of(const OpInfo& info);

Tensor random_tensor(DType dtype, const std::vector<int64_t>& dims, double low, double high,
                     std::mt19937& random);

}  // namespace rlx
