// What the parts of the importer share: how deep a file may go, and names that are free.
#pragma once

#include <string>

#include "base/format.h"
#include "rlx/graph.h"

namespace rlx::onnx {

// Of functions and sub-graphs: as deep as the text form goes.
inline constexpr int kMaxDepth = 31;

// What comes before the names of nodes in a function or a sub-graph of this name. Deep ones are cut short.
inline std::string nested_prefix(const std::string& outer, const std::string& name) {
  constexpr size_t kMaxPrefix = 256;
  std::string prefix = outer + name + "/";
  if (prefix.size() > kMaxPrefix) prefix = excerpt(prefix, kMaxPrefix) + "/";
  return prefix;
}

// The name, or one that is made of it if a node has it already.
inline std::string free_name(const Graph& graph, std::string name) {
  while (graph.find(name) >= 0) name += '_';
  return name;
}

// Params are found by their names, other nodes of a graph are not: one that has the name already takes
// another. (The inputs of a body go by their order, and those of the model never have the name of a param.)
inline void make_free(Graph& graph, const std::string& name) {
  if (const int32_t other = graph.find(name); other >= 0) graph.rename(other, free_name(graph, name));
}

}  // namespace rlx::onnx
