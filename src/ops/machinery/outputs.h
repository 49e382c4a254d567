// What functions of ops with several outputs return.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "rlx/graph.h"

namespace rlx {

// The outputs of the node that makes `first`, in their order, as a struct of Values; a Value is empty if
// there is no such output.
template <class Outputs>
Outputs named_outputs(const Value& first) {
  static_assert(std::is_aggregate_v<Outputs> && sizeof(Outputs) % sizeof(Value) == 0);
  Graph& graph = first.graph();
  const int32_t node = first.id().node;
  const auto output = [&](size_t i) {
    return i < graph.node(node).outputs.size() ? graph.value({node, static_cast<int32_t>(i)}) : Value();
  };
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return Outputs{output(I)...};
  }(std::make_index_sequence<sizeof(Outputs) / sizeof(Value)>());
}

}  // namespace rlx
