#include "ir/tolerance.h"
#include "rlx/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rlx {
namespace {

double largest_finite(DType dtype) {
  return dtype == DType::f16 ? 65504.0 : dtype == DType::bf16 ? 3.3895313892515355e38 : 3.4028234663852886e38;
}

}  // namespace

Closeness compare(double got, double want, DType dtype, const Tolerance& t) {
  const double relative = epsilon(DType::f32) * (t.ulps + 4 * std::sqrt(t.terms));
  const double smallest = dtype == DType::f16 ? 0x1p-24 : 0x1p-126;
  const double rounding = dtype == DType::f32 || dtype == DType::c64 ? 0 : epsilon(dtype) * std::fabs(want);
  const double allowed = relative * std::max(std::fabs(want), t.scale) + rounding + smallest;
  if (std::isnan(want)) return {std::isnan(got), allowed};
  if (std::isinf(want)) return {got == want, allowed};
  if (std::fabs(want) + allowed >= largest_finite(dtype) && std::isinf(got))
    return {(got > 0) == (want > 0), allowed};
  return {std::fabs(got - want) <= allowed, allowed};
}

double difference(double got, double want) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  const double apart = std::fabs(got - want);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

}  // namespace rlx
