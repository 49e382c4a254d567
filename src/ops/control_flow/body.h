// What ops with bodies (call, if, loop, scan) share.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ir/reference.h"
#include "rlx/graph.h"

namespace rlx {

// An error that names the attribute if there is no graph.
void expect_body(std::string_view op, std::string_view attribute, const GraphPtr& body);
// An error unless the inputs of the body have these types, in order.
void expect_body_inputs(std::string_view op, const Graph& body, std::span<const TensorType> given);
// What ops outside see of the body's outputs.
std::vector<TensorType> body_output_types(const Graph& body);

// All outputs of the node that makes `first`.
std::vector<Value> all_outputs(Value first);
// Slices of this type as one tensor of `length` of them, zeros after the last.
RefTensor stack(const std::vector<RefTensor>& slices, const TensorType& type, int64_t length);

// Whether a value of this type can decide something: one element.
inline bool is_one_element(const Shape& shape) {
  return shape.rank() == 0 || (shape.rank() == 1 && shape[0].is(1));
}

// Each node of a body adds its error, relative to values of the size of the inputs: a later one may cancel
// them.
inline Tolerance body_tolerance(const Graph& body) { return {.ulps = 4.0 * body.size(), .scale = 4}; }

}  // namespace rlx
