// The cases of `rlx bench` by what they do. bench_cases() has them all.
#pragma once

#include <span>

#include "measure/bench_cases.h"
#include "rlx/value.h"

namespace rlx::measure {

std::span<const Case> product_cases();
std::span<const Case> conv_cases();
std::span<const Case> memory_cases();  // what moves memory more than it computes: compare it with the triad
std::span<const Case> transformer_cases();
std::span<const Case> algorithm_cases();  // sorts, transforms, solvers, scans: most grow with a size

// Makes the first numbers of `y` the output: all of it is computed, but little is read back. (Views are flat
// only in memory of their own.)
void output_start(Graph& graph, Value y);
// That for what is made of a state of these many floats.
Graph of_state(const Shape& dims, Value (*make)(Value));

}  // namespace rlx::measure
