// The caches of a decoder: an input past.. and an output present.., which is the input with new entries
// behind it. As a state they stay on the device from run to run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rlx/graph.h"
#include "rlx/onnx.h"

namespace rlx::onnx {

struct CachePair {
  std::string input;
  std::string output;
  int32_t past = -1;    // the input's node
  int32_t concat = -1;  // of the input and what is new; -1: nothing is added
  int64_t axis = 0;
  std::string kept = {};  // the symbol of that axis, if nothing is added and its size is not a number
};

// An output that is neither its input, with entries behind it or without, nor a constant is an error, and so
// is a model without any.
std::vector<CachePair> find_caches(const Graph& graph);

// For the symbols of the caches' lengths: a symbol for the length of all there is in the end, which can have
// the capacity whatever the number of new entries is, less that number. A graph that was imported with them
// has the total length as its symbol.
std::map<std::string, Dim> total_lengths(const Graph& graph, const std::vector<CachePair>& pairs);

// The graph with a state of this capacity in the place of each pair.
std::pair<Graph, std::vector<Cache>> caches_as_states(const Graph& graph, int64_t capacity);

}  // namespace rlx::onnx
