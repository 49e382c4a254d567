// Branches and loops, whose bodies are graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// A body is a graph of its own. Its inputs, in order, are given the values that the function passes in, and
// its outputs, in order, are what comes back; names do not matter. It may have params and states: one name is
// one tensor, in whatever body it is. A running sum:
//
//   rlx::Graph body;
//   auto total = body.input("total", rlx::DType::f32, {3});
//   auto row = body.input("row", rlx::DType::f32, {3});
//   body.output("total", total + row);
//   body.output("so far", total + row);
//   auto sums = rlx::scan({zeros}, {rows}, body);  // {the last total [3], all of them [n, 3]}

// The outputs of `then_body` if the condition (one bool or integer) is not zero, else those of `else_body`,
// applied to the inputs. Both have the same types.
std::vector<Value> if_else(Value condition, const std::vector<Value>& inputs, Graph then_body,
                           Graph else_body);

struct LoopOptions {
  Value trips = {};                  // at most this many iterations (one integer); no limit if empty
  Value condition = {};              // no iteration at all if this bool is false
  std::vector<Value> captured = {};  // the same values in each iteration
  // Of a loop that stacks slices, either the exact number of iterations (instead of trips and condition), or
  // a symbol for the number that only the run knows, with the largest value that it may have.
  std::optional<Dim> exactly = {};
  std::string count = {};
  int64_t capacity = 0;
};
// for (i = 0; i < trips && condition; ++i) condition, carried, slices = body(i, carried, captured)
// The body takes i (i32), the carried and the captured values. It returns a bool, the carried values and any
// number of slices. The results are the last carried values, and the slices of all iterations stacked along a
// new first axis.
std::vector<Value> loop(const std::vector<Value>& carried, Graph body, const LoopOptions& options = {});

// One iteration for each slice along the first axis of the scanned values:
// carried, slices = body(carried, scanned[i], captured). Results as above.
std::vector<Value> scan(const std::vector<Value>& carried, const std::vector<Value>& scanned, Graph body,
                        const std::vector<Value>& captured = {});

}  // namespace rlx
RLX_EXPORT_END
