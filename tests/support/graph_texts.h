// Graphs from statements, computed by the reference.
#pragma once

#include <gtest/gtest.h>

#include "ir/reference.h"
#include "passes/passes.h"
#include "rlx/tensor.h"

namespace rlx::testing {

inline Graph checked(const std::string& statements) {
  Graph g = parse_graph("graph g {\n" + statements + "\n}");
  verify(g);
  return g;
}

inline std::vector<double> real(const Graph& g, const NamedTensors& leaves, const std::string& output = "y") {
  return run_reference(g, leaves).at(output).real;
}

inline Tensor floats(std::vector<int64_t> dims, std::vector<float> values) {
  return Tensor::of<float>(std::move(dims), values);
}
inline Tensor int32(int32_t value) { return Tensor::of<int32_t>({}, {value}); }
inline Tensor boolean(bool value) { return Tensor::from_ints(DType::bool_, {}, std::vector<int64_t>{value}); }

// Whatever the graph is, printing and parsing it changes nothing.
inline void expect_round_trip(const Graph& g) {
  const std::string text = to_text(g);
  const Graph again = parse_graph(text);
  verify(again);
  EXPECT_EQ(to_text(again), text);
}

// Adds x to a state in each iteration and returns what the state holds.
inline const std::string kAccumulate = R"(
  %trips = input : i32[]
  %x = input : f32[2]
  %zero = constant {value=tensor f32[2] fill 0}
  %y = loop(%trips, none, %zero, %x) {carried=1, body=graph body {
    %i = input : i32[]
    %last = input : f32[2]
    %x = input : f32[2]
    %s = state : f32[2]
    %sum = add(%s, %x)
    %new = write_state(%s, %sum)
    %copy = mul(%new, 1)
    %go = constant {value=tensor bool[] fill 1}
    output go = %go
    output s = %copy
  }}
)";

}  // namespace rlx::testing
