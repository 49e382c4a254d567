// What functions of ops with several outputs return.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "rlx/value.h"

namespace rlx {

// Output `index` of the node that makes `first`; empty if there is no such output.
Value output_beside(const Value& first, size_t index);

// The outputs of the node that makes `first`, in their order, as a struct of Values; a Value is empty if
// there is no such output.
template <class Outputs>
Outputs named_outputs(const Value& first) {
  static_assert(std::is_aggregate_v<Outputs> && sizeof(Outputs) % sizeof(Value) == 0);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return Outputs{output_beside(first, I)...};
  }(std::make_index_sequence<sizeof(Outputs) / sizeof(Value)>());
}

}  // namespace rlx
