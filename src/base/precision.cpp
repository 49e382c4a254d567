#include "rlx/precision.h"

#include "base/fail.h"

namespace rlx {

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::exact:
      return "exact";
    case Precision::mixed:
      return "mixed";
    case Precision::fast:
      return "fast";
  }
  return "unknown";
}

Precision parse_precision(std::string_view text) {
  for (const Precision p : {Precision::exact, Precision::mixed, Precision::fast}) {
    if (text == to_string(p)) return p;
  }
  fail(ErrorKind::invalid_argument, "the precision '{}' is not one of exact, mixed and fast", text);
}

}  // namespace rlx
