// How accurate products and sums must be.
#pragma once

#include <string_view>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

// What matmuls, attention and reductions may round to on the way. Each allows what it says and everything
// more accurate; in this version only `exact` has kernels, so all three compute the same numbers.
enum class Precision {
  exact,  // products and sums are never below f32, whatever the types of the operands
  mixed,  // operands may be rounded to f16 where the result's bound allows it; sums are f32
  fast,   // f16 throughout
};

std::string_view to_string(Precision precision);
// The precision of that name; otherwise an error that lists the names.
Precision parse_precision(std::string_view text);

}  // namespace rlx
RLX_EXPORT_END
