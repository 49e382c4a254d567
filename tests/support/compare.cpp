#include "tests/support/compare.h"

#include <cmath>

#include "base/format.h"
#include "ir/tolerance.h"

namespace rlx::testing {
namespace {

bool close_value(double got, double want, DType dtype, const Tolerance& t, double* allowed) {
  const Closeness closeness = rlx::compare(got, want, dtype, t);
  *allowed = closeness.allowed;
  return closeness.close;
}

}  // namespace

::testing::AssertionResult close(const Tensor& got, const RefTensor& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype || got.shape() != want.dims) {
    return ::testing::AssertionFailure()
           << "got " << got.type_text() << ", want " << to_string(want.dtype) << Shape(want.dims).text();
  }
  int64_t wrong = 0;
  std::string first;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const auto p = static_cast<size_t>(i);
    bool good = true;
    std::string text;
    double allowed = 0;
    if (want.dtype == DType::c64) {
      const auto g = got.complex(i);
      good =
          close_value(g.real(), want.complex[p].real(), DType::f32,
                      {tolerance.ulps, tolerance.terms, std::max(tolerance.scale, std::abs(want.complex[p]))},
                      &allowed) &&
          close_value(g.imag(), want.complex[p].imag(), DType::f32,
                      {tolerance.ulps, tolerance.terms, std::max(tolerance.scale, std::abs(want.complex[p]))},
                      &allowed);
      if (!good)
        text = formatted("({}, {}) instead of ({}, {})", g.real(), g.imag(), want.complex[p].real(),
                         want.complex[p].imag());
    } else if (is_float(want.dtype)) {
      good = close_value(got.real(i), want.real[p], want.dtype, tolerance, &allowed);
      if (!good) text = formatted("{} instead of {} (allowed error {})", got.real(i), want.real[p], allowed);
    } else {
      good = got.integer(i) == want.ints[p];
      if (!good) text = formatted("{} instead of {}", got.integer(i), want.ints[p]);
    }
    if (!good && wrong++ == 0) first = formatted("element {}: {}", i, text);
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << got.elements() << " elements differ; " << first;
}

}  // namespace rlx::testing
