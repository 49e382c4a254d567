// Casts that lose nothing: what reads a 16-bit float as f32 can read it before such a cast.
#pragma once

#include <optional>

#include "passes/rewrite.h"
#include "rlx/graph.h"

namespace rlx {

bool is_16_bit_float(DType t);

// The 16-bit floats that `v`, an f32, is a cast of; nothing if it is anything else.
std::optional<ValueId> before_widening(const Graph& graph, ValueId v);

// The same where reshapes may follow the cast: the value that is cast.
std::optional<ValueId> widened_source(const Graph& graph, ValueId v);
// A value of the source without the cast, in the new graph; the value if there is no such cast.
ValueId without_widening(Rewriter& rewriter, ValueId v);

}  // namespace rlx
