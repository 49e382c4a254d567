// How accurate products and sums must be.
#pragma once

#include <string_view>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

// What products of matrices may round to on the way. Each allows what it says and everything more accurate;
// docs/arithmetic.md has the bounds.
enum class Precision {
  exact,  // products and sums are never below f32, whatever the types of the operands
  mixed,  // factors may be rounded to f16, scaled so that none overflows; sums are f32
  fast,   // sums of 128 products may be f16 too, scaled so that none overflows; these are added up in f32
};

std::string_view to_string(Precision precision);
// The precision of that name; otherwise an error that lists the names.
Precision parse_precision(std::string_view text);

}  // namespace rlx
RLX_EXPORT_END
